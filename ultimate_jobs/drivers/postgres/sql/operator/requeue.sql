-- Make a finished job due again, unless a live job holds its key; with a step's name, forget that step and every later
-- one in the same statement, unless that would keep a step and forget that it was undone. Workers are told of its queue.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
job AS MATERIALIZED (
    SELECT j.id, j.run_id, j.state, j.name, j.tenant_id, j.idempotency_key
      FROM x_jobs AS j
     WHERE j.id = %(job_id)s::uuid
       FOR UPDATE
),
holder AS MATERIALIZED (
    SELECT l.id
      FROM job AS j
      JOIN x_jobs AS l
        ON l.name = j.name
       AND coalesce(l.tenant_id, '') = coalesce(j.tenant_id, '')
       AND l.idempotency_key = j.idempotency_key
       AND l.state IN ('delayed', 'ready', 'running', 'suspended')
     WHERE l.id <> j.id
),
from_step AS MATERIALIZED (
    SELECT s.position
      FROM x_job_steps AS s
      JOIN job AS j ON j.run_id = s.run_id
     WHERE s.name = %(from_step)s::text
),
undone AS MATERIALIZED (
    SELECT kept.name
      FROM job AS j
      JOIN x_job_steps AS kept ON kept.run_id = j.run_id
      JOIN x_job_steps AS undo ON undo.run_id = j.run_id AND undo.name = 'compensate:' || kept.name
     CROSS JOIN from_step AS f
     WHERE kept.position < f.position
       AND undo.position >= f.position
),
moved AS (
    UPDATE x_jobs AS q
       SET state = 'ready', attempt = 0, run_at = clock.now, blocked = FALSE, result = NULL, updated_at = clock.now
      FROM job AS j, clock
     WHERE q.id = j.id
       AND j.state IN ('cancelled', 'dead', 'done', 'failed')
       AND NOT EXISTS (SELECT 1 FROM holder)
       AND (%(from_step)s::text IS NULL OR EXISTS (SELECT 1 FROM from_step))
       AND NOT EXISTS (SELECT 1 FROM undone)
    RETURNING q.id, q.run_id, q.queue
),
forgotten AS (
    DELETE FROM x_job_steps AS s
     USING moved AS m, from_step AS f
     WHERE s.run_id = m.run_id
       AND s.position >= f.position
    RETURNING s.name
),
told AS MATERIALIZED (
    SELECT pg_notify('ultimate_jobs_' || 'x_jobs'::regclass::oid::text, due.queue) AS sent
      FROM (SELECT DISTINCT m.queue FROM moved AS m) AS due
)
SELECT j.state, (SELECT count(*) FROM moved) AS moved, (SELECT h.id FROM holder AS h) AS holder,
       (SELECT count(*) FROM from_step) AS steps, (SELECT count(*) FROM undone) AS undone,
       (SELECT count(*) FROM forgotten) AS forgotten
  FROM job AS j
 CROSS JOIN (SELECT count(*) AS queues FROM told) AS told;
