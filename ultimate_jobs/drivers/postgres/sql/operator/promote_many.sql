-- Make jobs due that wait for their time, as many of the given ones as the limit has; sleeping runs sleep on.
-- Workers are told of their queues.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
able AS MATERIALIZED (
    SELECT j.id, j.created_at
      FROM x_jobs AS j
     CROSS JOIN clock
     WHERE j.id = ANY (ARRAY(SELECT g.id FROM unnest(%(ids)s::uuid[]) AS g (id)))
       AND j.state IN ('delayed', 'ready')
       AND j.run_at > clock.now
),
picked AS MATERIALIZED (
    SELECT a.id
      FROM able AS a
     ORDER BY a.created_at DESC, a.id DESC
     LIMIT %(limit)s::int
),
moved AS (
    UPDATE x_jobs AS q
       SET state = 'ready', run_at = clock.now, updated_at = clock.now
      FROM clock
     WHERE q.id = ANY (ARRAY(SELECT p.id FROM picked AS p))
       AND q.state IN ('delayed', 'ready')
       AND q.run_at > clock.now
    RETURNING q.id, q.queue
),
told AS MATERIALIZED (
    SELECT pg_notify('ultimate_jobs_' || 'x_jobs'::regclass::oid::text, due.queue) AS sent
      FROM (SELECT DISTINCT m.queue FROM moved AS m) AS due
)
SELECT ARRAY(SELECT m.id FROM moved AS m) AS moved, (SELECT count(*) FROM able) AS able
  FROM (SELECT count(*) AS queues FROM told) AS told;
