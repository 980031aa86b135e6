-- Make finished jobs due again, as many of the given ones as the limit has; those whose key a live job holds are left, and
-- of several with one key the newest goes. Workers are told of their queues.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
able AS MATERIALIZED (
    SELECT j.id, j.created_at,
           row_number() OVER (PARTITION BY j.name, coalesce(j.tenant_id, ''), j.idempotency_key
                              ORDER BY j.created_at DESC, j.id DESC) AS place
      FROM x_jobs AS j
     WHERE j.id = ANY (ARRAY(SELECT g.id FROM unnest(%(ids)s::uuid[]) AS g (id)))
       AND j.state IN ('cancelled', 'dead', 'done', 'failed')
       AND NOT EXISTS (
           SELECT 1
             FROM x_jobs AS l
            WHERE l.name = j.name
              AND coalesce(l.tenant_id, '') = coalesce(j.tenant_id, '')
              AND l.idempotency_key = j.idempotency_key
              AND l.state IN ('delayed', 'ready', 'running', 'suspended'))
),
picked AS MATERIALIZED (
    SELECT a.id
      FROM able AS a
     WHERE a.place = 1
     ORDER BY a.created_at DESC, a.id DESC
     LIMIT %(limit)s::int
),
moved AS (
    UPDATE x_jobs AS q
       SET state = 'ready', attempt = 0, run_at = clock.now, blocked = FALSE, result = NULL, updated_at = clock.now
      FROM clock
     WHERE q.id = ANY (ARRAY(SELECT p.id FROM picked AS p))
       AND q.state IN ('cancelled', 'dead', 'done', 'failed')
    RETURNING q.id, q.queue
),
told AS MATERIALIZED (
    SELECT pg_notify('ultimate_jobs_' || 'x_jobs'::regclass::oid::text, due.queue) AS sent
      FROM (SELECT DISTINCT m.queue FROM moved AS m) AS due
)
SELECT ARRAY(SELECT m.id FROM moved AS m) AS moved, (SELECT count(*) FROM able AS a WHERE a.place = 1) AS able
  FROM (SELECT count(*) AS queues FROM told) AS told;
