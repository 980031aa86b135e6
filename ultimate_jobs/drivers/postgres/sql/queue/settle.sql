-- Write how attempts ended, each only while its own claim stands, and count them in the same statement. A run that
-- parks itself has the step it waits at written with it; a wait begins where the last step before it was stored. A run
-- that held a slot leaves it, and as many rows that stand by for its key may be claimed. Workers are told of each queue
-- in which something is due at once: whoever gave it back may have no room for it, or be leaving.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
given AS MATERIALIZED (
    SELECT g.id, g.claim, g.state, g.counted, g.in_place, coalesce(g.until, clock.now + g.wait) AS due, g.poll, g.error,
           g.result::jsonb AS result, g.progress::jsonb AS progress,
           g.done, g.retried, g.failed, g.dead, g.duration_ms,
           g.step, g.step_position, g.step_status, g.step_event, g.step_match, g.lease_key, g.slot
      FROM clock
     CROSS JOIN
           unnest(%(ids)s::uuid[], %(claims)s::int[], %(states)s::text[], %(counted)s::bool[], %(in_place)s::bool[],
                  %(waits)s::interval[],
                  %(untils)s::timestamptz[], %(polls)s::interval[],
                  %(errors)s::text[], %(results)s::text[], %(progress)s::text[], %(done)s::int[], %(retried)s::int[],
                  %(failed)s::int[], %(dead)s::int[], %(duration_ms)s::bigint[], %(steps)s::text[],
                  %(step_positions)s::int[], %(step_statuses)s::text[], %(step_events)s::text[],
                  %(step_matches)s::text[], %(lease_keys)s::text[], %(slots)s::int[])
           AS g (id, claim, state, counted, in_place, wait, until, poll, error, result, progress, done, retried, failed, dead,
                 duration_ms, step, step_position, step_status, step_event, step_match, lease_key, slot)
),
settled AS (
    UPDATE x_jobs AS j
       SET state = g.state,
           attempt = CASE WHEN g.counted THEN j.attempt ELSE greatest(j.attempt - 1, 0) END,
           run_at = CASE WHEN g.state IN ('ready', 'suspended') AND NOT g.in_place THEN least(g.due, clock.now + g.poll)
                         ELSE j.run_at END,
           last_error = CASE WHEN g.counted OR g.error IS NOT NULL THEN g.error ELSE j.last_error END,
           result = coalesce(g.result, j.result),
           progress = coalesce(g.progress, j.progress),
           claimed_by = NULL,
           visible_at = NULL,
           updated_at = clock.now
      FROM given AS g, clock
     WHERE j.id = g.id
       AND j.claim = g.claim
       AND ARRAY[j.state, j.claimed_by] = ARRAY['running', %(worker)s::text]
    RETURNING j.id, j.run_id, j.name, g.claim, g.done, g.retried, g.failed, g.dead, g.duration_ms,
              g.step, g.step_position, g.step_status, g.step_event, g.step_match, g.due,
              j.queue, j.state, j.run_at
),
parked AS (
    INSERT INTO x_job_steps (run_id, name, job_id, position, status, attempts, undoable, started_at, wake_at, event, match,
                             waited_from)
    SELECT s.run_id, s.step, s.id, s.step_position, s.step_status, 0, FALSE, coalesce(before.completed_at, clock.now),
           s.due, s.step_event, s.step_match, coalesce(before.waited_from, pg_current_snapshot()::text)
      FROM settled AS s
     CROSS JOIN clock
      LEFT JOIN LATERAL (
           SELECT p.completed_at, p.waited_from
             FROM x_job_steps AS p
            WHERE s.step_status = 'waiting'
              AND p.run_id = s.run_id
              AND p.position < s.step_position
              AND p.status = 'completed'
            ORDER BY p.position DESC
            LIMIT 1
      ) AS before ON TRUE
     WHERE s.step IS NOT NULL
        ON CONFLICT DO NOTHING
    RETURNING name
),
counted AS (
    INSERT INTO x_job_counters AS c (span, bucket, name, shard, done, retried, failed, dead, duration_ms)
    SELECT 1, date_trunc('minute', clock.now), s.name, %(shard)s::int,
           sum(s.done), sum(s.retried), sum(s.failed), sum(s.dead), sum(s.duration_ms)
      FROM settled AS s, clock
     WHERE s.done + s.retried + s.failed + s.dead > 0
     GROUP BY clock.now, s.name
     ORDER BY s.name
        ON CONFLICT (span, bucket, name, shard) DO UPDATE
       SET done = c.done + excluded.done,
           retried = c.retried + excluded.retried,
           failed = c.failed + excluded.failed,
           dead = c.dead + excluded.dead,
           duration_ms = c.duration_ms + excluded.duration_ms
    RETURNING c.name
),
released AS (
    DELETE FROM x_job_leases AS l
     USING given AS g
     WHERE g.slot IS NOT NULL
       AND l.lease_key = g.lease_key
       AND l.slot = g.slot
       AND l.job_id = g.id
       AND l.claim = g.claim
    RETURNING l.lease_key
),
next AS MATERIALIZED (
    SELECT head.id
      FROM (SELECT r.lease_key, count(*) AS slots FROM released AS r GROUP BY r.lease_key) AS left_free
     CROSS JOIN LATERAL (
           SELECT j.id
             FROM x_jobs AS j
            WHERE j.lease_key = left_free.lease_key
              AND j.blocked
              AND j.state IN ('delayed', 'ready', 'suspended')
            ORDER BY j.priority DESC, j.run_at, j.id
            LIMIT left_free.slots
              FOR UPDATE SKIP LOCKED
     ) AS head
),
admitted AS (
    UPDATE x_jobs AS j
       SET blocked = FALSE
      FROM next AS n
     WHERE j.id = n.id
    RETURNING j.queue
),
told AS MATERIALIZED (
    SELECT pg_notify('ultimate_jobs_' || 'x_jobs'::regclass::oid::text, due.queue) AS sent
      FROM (SELECT s.queue
              FROM settled AS s, clock
             WHERE s.state = 'ready'
               AND s.run_at <= clock.now
             UNION
            SELECT a.queue FROM admitted AS a) AS due
)
SELECT s.id, s.claim
  FROM settled AS s
 CROSS JOIN (SELECT count(*) AS queues FROM told) AS told;
