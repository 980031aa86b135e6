-- Remove jobs that do not run, with their steps and the slots they left behind, as many of the given ones as the limit has.
WITH able AS MATERIALIZED (
    SELECT j.id, j.created_at
      FROM x_jobs AS j
     WHERE j.id = ANY (ARRAY(SELECT g.id FROM unnest(%(ids)s::uuid[]) AS g (id)))
       AND j.state <> 'running'
),
picked AS MATERIALIZED (
    SELECT a.id
      FROM able AS a
     ORDER BY a.created_at DESC, a.id DESC
     LIMIT %(limit)s::int
),
removed AS (
    DELETE FROM x_jobs AS q
     WHERE q.id = ANY (ARRAY(SELECT p.id FROM picked AS p))
       AND q.state <> 'running'
    RETURNING q.id
),
forgotten AS (
    DELETE FROM x_job_steps AS s
     WHERE s.job_id = ANY (ARRAY(SELECT r.id FROM removed AS r))
    RETURNING s.job_id
),
left_over AS (
    DELETE FROM x_job_leases AS l
     WHERE l.job_id = ANY (ARRAY(SELECT r.id FROM removed AS r))
       AND l.expires_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
    RETURNING l.slot
)
SELECT ARRAY(SELECT r.id FROM removed AS r) AS moved, (SELECT count(*) FROM able) AS able,
       (SELECT count(*) FROM forgotten) AS steps, (SELECT count(*) FROM left_over) AS leases;
