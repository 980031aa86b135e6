-- Resume what was paused; workers are told of a queue.
WITH resumed AS (
    DELETE FROM x_job_pauses AS p
     WHERE p.kind = %(kind)s::text
       AND p.name = %(name)s::text
    RETURNING p.kind, p.name
),
told AS MATERIALIZED (
    SELECT pg_notify('ultimate_jobs_' || 'x_jobs'::regclass::oid::text, r.name) AS sent
      FROM resumed AS r
     WHERE r.kind = 'queue'
)
SELECT r.name
  FROM resumed AS r
 CROSS JOIN (SELECT count(*) AS queues FROM told) AS told;
