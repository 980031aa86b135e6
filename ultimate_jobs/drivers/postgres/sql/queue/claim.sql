-- Take due rows for a worker, in the order priority, run_at, id, and bury what lapsed with no attempt left.
--
-- Everything is a seek in an index. `levels` finds the priorities that wait in each queue, one probe each, so rows due
-- later cost nothing however urgent they are. `holders` finds the workers that hold running rows, one probe each; rows
-- are lapsed when their own deadline passed and their worker shows no sign of life. The lock is taken row by row under
-- the limit, inside materialized CTEs, so a claim never marks more rows than it may whatever the plan.
--
-- Beyond the room, `ahead` rows are taken to wait in the worker. A worker that dies costs every claim an attempt, so only
-- rows wait that have used none and have another one, and none is taken behind one that may not.
WITH RECURSIVE lanes AS MATERIALIZED (
    SELECT q.queue, q.share, q.place
      FROM unnest(%(queues)s::text[], %(shares)s::int[]) WITH ORDINALITY AS q (queue, share, place)
     WHERE NOT EXISTS (SELECT 1 FROM x_job_pauses AS p WHERE p.kind = 'queue' AND p.name = q.queue)
),
levels AS (
    SELECT l.queue, l.place,
           (SELECT j.priority
              FROM x_jobs AS j
             WHERE j.queue = l.queue
               AND j.state IN ('delayed', 'ready', 'suspended')
               AND NOT j.blocked
             ORDER BY j.priority DESC
             LIMIT 1) AS priority
      FROM lanes AS l
     UNION ALL
    SELECT v.queue, v.place,
           (SELECT j.priority
              FROM x_jobs AS j
             WHERE j.queue = v.queue
               AND j.state IN ('delayed', 'ready', 'suspended')
               AND NOT j.blocked
               AND j.priority < v.priority
             ORDER BY j.priority DESC
             LIMIT 1)
      FROM levels AS v
     WHERE v.priority IS NOT NULL
),
holders AS (
    SELECT (SELECT j.claimed_by
              FROM x_jobs AS j
             WHERE j.state = 'running'
             ORDER BY j.claimed_by
             LIMIT 1) AS worker
     WHERE %(reap)s::bool
     UNION ALL
    SELECT (SELECT j.claimed_by
              FROM x_jobs AS j
             WHERE j.state = 'running'
               AND j.claimed_by > h.worker
             ORDER BY j.claimed_by
             LIMIT 1)
      FROM holders AS h
     WHERE h.worker IS NOT NULL
),
gone AS MATERIALIZED (
    SELECT h.worker
      FROM holders AS h
     WHERE h.worker IS NOT NULL
       AND NOT EXISTS (
           SELECT 1
             FROM x_job_workers AS w
            WHERE w.id = h.worker
              AND w.expires_at > coalesce(%(now)s::timestamptz, statement_timestamp()))
),
exhausted AS MATERIALIZED (
    SELECT spent.id
      FROM gone
     CROSS JOIN LATERAL (
           SELECT j.id
             FROM x_jobs AS j
            WHERE j.state = 'running'
              AND j.claimed_by = gone.worker
              AND j.visible_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
              AND j.attempt >= j.max_attempts
              AND j.queue IN (SELECT lanes.queue FROM lanes)
              AND j.name = ANY (%(names)s::text[])
            ORDER BY j.visible_at
            LIMIT 1000
              FOR UPDATE SKIP LOCKED
     ) AS spent
     LIMIT 1000
),
lapsed AS MATERIALIZED (
    SELECT left_behind.id, left_behind.queue, left_behind.priority, left_behind.run_at
      FROM gone
     CROSS JOIN LATERAL (
           SELECT j.id, j.queue, j.priority, j.run_at
             FROM x_jobs AS j
            WHERE j.state = 'running'
              AND j.claimed_by = gone.worker
              AND j.visible_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
              AND j.attempt < j.max_attempts
              AND j.queue IN (SELECT lanes.queue FROM lanes)
              AND j.name = ANY (%(names)s::text[])
            ORDER BY j.visible_at
            LIMIT %(room)s::int
              FOR UPDATE SKIP LOCKED
     ) AS left_behind
     LIMIT %(room)s::int
),
due AS MATERIALIZED (
    SELECT next.id, next.queue, next.priority, next.run_at, next.may_wait
      FROM lanes
     CROSS JOIN LATERAL (
           SELECT head.id, head.queue, head.priority, head.run_at, head.may_wait
             FROM (SELECT v.priority
                     FROM levels AS v
                    WHERE v.queue = lanes.queue
                      AND v.priority IS NOT NULL
                    ORDER BY v.priority DESC) AS level
            CROSS JOIN LATERAL (
                  SELECT j.id, j.queue, j.priority, j.run_at,
                         j.attempt = 0 AND j.max_attempts > 1 AND j.name = ANY (%(waitable)s::text[]) AS may_wait
                    FROM x_jobs AS j
                   WHERE j.queue = lanes.queue
                     AND j.priority = level.priority
                     AND j.state IN ('delayed', 'ready', 'suspended')
                     AND NOT j.blocked
                     AND j.run_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
                     AND j.name = ANY (%(names)s::text[])
                   ORDER BY j.run_at, j.id
                   LIMIT lanes.share
                     FOR UPDATE SKIP LOCKED
            ) AS head
            LIMIT lanes.share
     ) AS next
     LIMIT %(room)s::int + %(ahead)s::int
),
turns AS (
    SELECT both_kinds.id, both_kinds.queue, both_kinds.may_wait,
           row_number() OVER (PARTITION BY both_kinds.queue
                                  ORDER BY both_kinds.fresh, both_kinds.priority DESC, both_kinds.run_at,
                                           both_kinds.id) AS turn
      FROM (SELECT lapsed.id, lapsed.queue, lapsed.priority, lapsed.run_at, FALSE AS fresh, FALSE AS may_wait FROM lapsed
             UNION ALL
            SELECT due.id, due.queue, due.priority, due.run_at, TRUE, due.may_wait FROM due) AS both_kinds
),
line AS (
    SELECT turns.id, turns.may_wait, row_number() OVER (ORDER BY turns.turn, lanes.place) AS place
      FROM turns
      JOIN lanes ON lanes.queue = turns.queue
     WHERE turns.turn <= lanes.share
),
taken AS MATERIALIZED (
    SELECT served.id
      FROM (SELECT line.id, line.place,
                   bool_and(line.may_wait OR line.place <= %(room)s::int)
                       OVER (ORDER BY line.place) AS so_far
              FROM line) AS served
     WHERE served.place <= %(room)s::int + %(ahead)s::int
       AND served.so_far
),
claimed AS (
    UPDATE x_jobs AS j
       SET state = 'running',
           attempt = j.attempt + 1,
           claim = j.claim + 1,
           claimed_by = %(worker)s::text,
           visible_at = coalesce(%(now)s::timestamptz, statement_timestamp()) + %(lease)s::interval,
           updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
      FROM taken AS t
     WHERE j.id = t.id
    RETURNING j.id, j.claim, j.name, j.queue, j.priority, j.run_at, j.input, j.run_id, j.attempt, j.max_attempts,
              j.tenant_id, j.traceparent, j.state, j.last_error
),
buried AS (
    UPDATE x_jobs AS j
       SET state = CASE WHEN j.name = ANY (%(undead)s::text[]) THEN 'failed' ELSE 'dead' END,
           last_error = left(concat_ws(E'\n\nThe attempt before had failed with: ', %(lapsed_error)s::text, j.last_error),
                             16384),
           claimed_by = NULL,
           visible_at = NULL,
           updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
      FROM exhausted AS e
     WHERE j.id = e.id
    RETURNING j.id, j.claim, j.name, j.queue, j.priority, j.run_at, j.input, j.run_id, j.attempt, j.max_attempts,
              j.tenant_id, j.traceparent, j.state, j.last_error
),
counted AS (
    INSERT INTO x_job_counters AS c (span, bucket, name, shard, done, retried, failed, dead, duration_ms)
    SELECT 1, date_trunc('minute', coalesce(%(now)s::timestamptz, statement_timestamp())), b.name, %(shard)s::int,
           0, 0, count(*) FILTER (WHERE b.state = 'failed'), count(*) FILTER (WHERE b.state = 'dead'), 0
      FROM buried AS b
     GROUP BY b.name
     ORDER BY b.name
        ON CONFLICT (span, bucket, name, shard) DO UPDATE
       SET failed = c.failed + excluded.failed, dead = c.dead + excluded.dead
    RETURNING c.name
)
SELECT a.id, a.claim, a.name, a.queue, a.input, a.run_id, a.attempt, a.max_attempts, a.tenant_id, a.traceparent,
       a.state, a.last_error, pg_current_snapshot()::text AS snapshot
  FROM (SELECT c.id, c.claim, c.name, c.queue, c.priority, c.run_at, c.input, c.run_id, c.attempt, c.max_attempts,
               c.tenant_id, c.traceparent, c.state, c.last_error
          FROM claimed AS c
         UNION ALL
        SELECT b.id, b.claim, b.name, b.queue, b.priority, b.run_at, b.input, b.run_id, b.attempt, b.max_attempts,
               b.tenant_id, b.traceparent, b.state, b.last_error
          FROM buried AS b) AS a
 ORDER BY a.priority DESC, a.run_at, a.id;
