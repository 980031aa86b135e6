-- Count what each queue holds, every count up to a cap, find what has been due for longest, and say who paused it.
--
-- Queues and priorities are found by one probe each; the counts read the waiting rows of a queue, those of it that stand
-- by for a slot, the running rows, and the newest rows that ended badly, no more of each than the cap. A limit that the planner cannot see makes it expect a
-- tenth of the rows: it then follows the index and does not read all to sort them.
WITH RECURSIVE clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
most AS MATERIALIZED (
    SELECT %(cap)s::int AS counted
),
lanes AS (
    SELECT least((SELECT j.queue
                    FROM x_jobs AS j
                   WHERE j.state IN ('delayed', 'ready', 'suspended')
                     AND NOT j.blocked
                   ORDER BY j.queue
                   LIMIT 1),
                 (SELECT j.queue
                    FROM x_jobs AS j
                   WHERE j.state IN ('delayed', 'ready', 'suspended')
                     AND j.blocked
                   ORDER BY j.queue
                   LIMIT 1)) AS queue, 1 AS place
     UNION ALL
    SELECT least((SELECT j.queue
                    FROM x_jobs AS j
                   WHERE j.state IN ('delayed', 'ready', 'suspended')
                     AND NOT j.blocked
                     AND j.queue > l.queue
                   ORDER BY j.queue
                   LIMIT 1),
                 (SELECT j.queue
                    FROM x_jobs AS j
                   WHERE j.state IN ('delayed', 'ready', 'suspended')
                     AND j.blocked
                     AND j.queue > l.queue
                   ORDER BY j.queue
                   LIMIT 1)), l.place + 1
      FROM lanes AS l
     WHERE l.queue IS NOT NULL
       AND l.place < %(most_queues)s::int
),
levels AS (
    SELECT l.queue,
           (SELECT j.priority
              FROM x_jobs AS j
             WHERE j.queue = l.queue
               AND j.state IN ('delayed', 'ready', 'suspended')
               AND NOT j.blocked
             ORDER BY j.priority DESC
             LIMIT 1) AS priority, 1 AS place
      FROM lanes AS l
     WHERE l.queue IS NOT NULL
     UNION ALL
    SELECT v.queue,
           (SELECT j.priority
              FROM x_jobs AS j
             WHERE j.queue = v.queue
               AND j.state IN ('delayed', 'ready', 'suspended')
               AND NOT j.blocked
               AND j.priority < v.priority
             ORDER BY j.priority DESC
             LIMIT 1), v.place + 1
      FROM levels AS v
     WHERE v.priority IS NOT NULL
       AND v.place < 1000
),
oldest AS (
    SELECT v.queue, min(head.run_at) AS run_at
      FROM levels AS v
     CROSS JOIN LATERAL (
           SELECT j.run_at
             FROM x_jobs AS j
            WHERE j.queue = v.queue
              AND j.priority = v.priority
              AND j.state IN ('delayed', 'ready', 'suspended')
              AND NOT j.blocked
            ORDER BY j.run_at
            LIMIT 1
     ) AS head
     WHERE v.priority IS NOT NULL
     GROUP BY v.queue
),
waiting AS MATERIALIZED (
    SELECT l.queue, part.state, part.run_at
      FROM lanes AS l
     CROSS JOIN LATERAL (
           SELECT j.state, j.run_at
             FROM x_jobs AS j
            WHERE j.queue = l.queue
              AND j.state IN ('delayed', 'ready', 'suspended')
              AND NOT j.blocked
            ORDER BY j.priority DESC, j.run_at, j.id
            LIMIT (SELECT m.counted FROM most AS m)
     ) AS part
     WHERE l.queue IS NOT NULL
),
standing_by AS MATERIALIZED (
    SELECT l.queue
      FROM lanes AS l
     CROSS JOIN LATERAL (
           SELECT j.id
             FROM x_jobs AS j
            WHERE j.queue = l.queue
              AND j.state IN ('delayed', 'ready', 'suspended')
              AND j.blocked
            ORDER BY j.run_at
            LIMIT (SELECT m.counted FROM most AS m)
     ) AS part
     WHERE l.queue IS NOT NULL
),
running AS MATERIALIZED (
    SELECT j.queue
      FROM x_jobs AS j
     WHERE j.state = 'running'
     ORDER BY j.claimed_by, j.visible_at
     LIMIT (SELECT m.counted FROM most AS m)
),
ended AS MATERIALIZED (
    SELECT j.queue, j.state
      FROM x_jobs AS j
     WHERE j.state IN ('cancelled', 'dead', 'failed')
     ORDER BY j.created_at DESC, j.id DESC
     LIMIT (SELECT m.counted FROM most AS m)
),
parts AS (
    SELECT w.queue,
           count(*) FILTER (WHERE w.state <> 'suspended' AND w.run_at <= clock.now) AS ready,
           count(*) FILTER (WHERE w.state <> 'suspended' AND w.run_at > clock.now) AS delayed,
           0 AS standing_by, 0 AS running,
           count(*) FILTER (WHERE w.state = 'suspended') AS suspended,
           0 AS failed, 0 AS dead, count(*) >= %(cap)s::int AS capped
      FROM waiting AS w
     CROSS JOIN clock
     GROUP BY w.queue
     UNION ALL
    SELECT s.queue, 0, 0, count(*), 0, 0, 0, 0, count(*) >= %(cap)s::int
      FROM standing_by AS s
     GROUP BY s.queue
     UNION ALL
    SELECT r.queue, 0, 0, 0, count(*), 0, 0, 0, (SELECT count(*) FROM running) >= %(cap)s::int
      FROM running AS r
     GROUP BY r.queue
     UNION ALL
    SELECT e.queue, 0, 0, 0, 0, 0, count(*) FILTER (WHERE e.state = 'failed'),
           count(*) FILTER (WHERE e.state = 'dead'), (SELECT count(*) FROM ended) >= %(cap)s::int
      FROM ended AS e
     GROUP BY e.queue
     UNION ALL
    SELECT p.name, 0, 0, 0, 0, 0, 0, 0, FALSE
      FROM x_job_pauses AS p
     WHERE p.kind = 'queue'
)
SELECT p.queue, sum(p.ready)::int AS ready, sum(p.delayed)::int AS delayed, sum(p.standing_by)::int AS standing_by,
       sum(p.running)::int AS running, sum(p.suspended)::int AS suspended, sum(p.failed)::int AS failed,
       sum(p.dead)::int AS dead, bool_or(p.capped) AS capped,
       (SELECT greatest(extract(epoch FROM clock.now - o.run_at), 0)::float8
          FROM oldest AS o, clock
         WHERE o.queue = p.queue
           AND o.run_at <= clock.now) AS oldest_ready_seconds,
       s.paused_at, s.paused_by, s.reason
  FROM parts AS p
  LEFT JOIN x_job_pauses AS s
    ON s.kind = 'queue'
   AND s.name = p.queue
 GROUP BY p.queue, s.paused_at, s.paused_by, s.reason
 ORDER BY p.queue;
