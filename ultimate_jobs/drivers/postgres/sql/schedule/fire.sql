-- Fire what is due of many tasks: move each watermark that still is the one the fire was decided on, and insert the jobs
-- of those tasks, at once or not at all. Also renews the lease; without it nothing happens.
--
-- The watermark is the fence. A concurrent fire of the same task waits for the row and then finds another watermark, so
-- an occurrence is fired once whoever leads. Rows are locked in the order of their names. Workers are told of
-- each queue in which something is due.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
lease AS (
    UPDATE x_scheduler_leader AS l
       SET expires_at = clock.now + %(lease)s::interval
      FROM clock
     WHERE l.holder = %(holder)s::text
    RETURNING l.holder
),
given AS MATERIALIZED (
    SELECT g.task, g.seen, g.watermark, g.occurrence,
           EXISTS (SELECT 1 FROM x_job_pauses AS p WHERE p.kind = 'task' AND p.name = g.task) AS paused
      FROM unnest(%(tasks)s::text[], %(seen)s::timestamptz[], %(watermarks)s::timestamptz[],
                  %(occurrences)s::timestamptz[])
           AS g (task, seen, watermark, occurrence)
),
jobs AS MATERIALIZED (
    SELECT j.task, j.id, j.run_id, j.name, j.queue, j.priority, j.input::jsonb AS input, j.idempotency_key,
           j.lease_key, j.max_attempts, j.run_at, j.tenant_id, j.traceparent, j.enqueued_by, j.related_type_id,
           j.related_id
      FROM unnest(%(job_tasks)s::text[], %(ids)s::uuid[], %(run_ids)s::uuid[], %(names)s::text[], %(queues)s::text[],
                  %(priorities)s::int[], %(inputs)s::text[], %(keys)s::text[], %(lease_keys)s::text[], %(max_attempts)s::int[],
                  %(run_ats)s::timestamptz[], %(tenant_ids)s::text[], %(traceparents)s::text[],
                  %(enqueued_by)s::text[], %(related_type_ids)s::int[], %(related_ids)s::text[])
           AS j (task, id, run_id, name, queue, priority, input, idempotency_key, lease_key, max_attempts, run_at,
                 tenant_id, traceparent, enqueued_by, related_type_id, related_id)
),
standing AS MATERIALIZED (
    SELECT s.name
      FROM x_scheduler_state AS s
      JOIN given AS g ON g.task = s.name
     WHERE s.watermark = g.seen
       AND s.watermark < g.watermark
       AND NOT g.paused
       AND EXISTS (SELECT 1 FROM lease)
     ORDER BY s.name
       FOR UPDATE OF s
),
moved AS (
    UPDATE x_scheduler_state AS s
       SET watermark = g.watermark,
           last_fired = coalesce(g.occurrence, s.last_fired),
           fired_at = CASE WHEN g.occurrence IS NULL THEN s.fired_at ELSE clock.now END
      FROM standing, given AS g, clock
     WHERE s.name = standing.name
       AND g.task = s.name
    RETURNING s.name
),
queued AS (
    INSERT INTO x_jobs (id, run_id, name, queue, priority, input, idempotency_key, lease_key, max_attempts, state,
                        attempt, claim, run_at, tenant_id, traceparent, enqueued_by, related_type_id, related_id,
                        created_at, updated_at)
    SELECT j.id, j.run_id, j.name, j.queue, j.priority, j.input, j.idempotency_key, j.lease_key,
           j.max_attempts, CASE WHEN j.run_at > clock.now THEN 'delayed' ELSE 'ready' END, 0, 0,
           j.run_at, j.tenant_id, j.traceparent, j.enqueued_by, j.related_type_id, j.related_id,
           clock.now, clock.now
      FROM jobs AS j
      JOIN moved AS m ON m.name = j.task
     CROSS JOIN clock
     ORDER BY j.name, coalesce(j.tenant_id, ''), j.idempotency_key
        ON CONFLICT DO NOTHING
    RETURNING queue, state
),
told AS MATERIALIZED (
    SELECT pg_notify('ultimate_jobs_' || 'x_jobs'::regclass::oid::text, due.queue) AS sent
      FROM (SELECT DISTINCT q.queue FROM queued AS q WHERE q.state = 'ready') AS due
)
SELECT g.task,
       m.name IS NOT NULL AS moved,
       g.paused,
       EXISTS (SELECT 1 FROM lease) AS leading,
       (extract(epoch FROM clock.now) * 1000000)::bigint AS now
  FROM given AS g
 CROSS JOIN clock
 CROSS JOIN (SELECT count(*) AS queues FROM told) AS told
  LEFT JOIN moved AS m ON m.name = g.task;
