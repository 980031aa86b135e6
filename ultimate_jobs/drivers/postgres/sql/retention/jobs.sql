-- Delete the oldest jobs that ended in a state before an instant, with their steps. A live job is never among them.
WITH expired AS MATERIALIZED (
    SELECT j.id
      FROM x_jobs AS j
     WHERE j.state IN ('cancelled', 'dead', 'done', 'failed')
       AND j.state = %(state)s::text
       AND j.updated_at < %(before)s::timestamptz
     ORDER BY j.updated_at
     LIMIT %(limit)s::int
       FOR UPDATE SKIP LOCKED
),
gone AS (
    DELETE FROM x_jobs AS j
     USING expired AS e
     WHERE j.id = e.id
    RETURNING j.id
),
steps AS (
    DELETE FROM x_job_steps AS s
     WHERE s.job_id = ANY (ARRAY(SELECT g.id FROM gone AS g))
    RETURNING s.name
)
SELECT count(*) AS jobs
  FROM gone;
