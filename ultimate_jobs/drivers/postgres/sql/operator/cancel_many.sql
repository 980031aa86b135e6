-- Cancel live jobs, as many of the given ones as the limit has; finished ones keep their ending.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
able AS MATERIALIZED (
    SELECT j.id, j.created_at
      FROM x_jobs AS j
     WHERE j.id = ANY (ARRAY(SELECT g.id FROM unnest(%(ids)s::uuid[]) AS g (id)))
       AND j.state IN ('delayed', 'ready', 'running', 'suspended')
),
picked AS MATERIALIZED (
    SELECT a.id
      FROM able AS a
     ORDER BY a.created_at DESC, a.id DESC
     LIMIT %(limit)s::int
),
moved AS (
    UPDATE x_jobs AS q
       SET state = 'cancelled',
           last_error = coalesce(%(reason)s::text, q.last_error),
           claimed_by = NULL,
           visible_at = NULL,
           updated_at = clock.now
      FROM clock
     WHERE q.id = ANY (ARRAY(SELECT p.id FROM picked AS p))
       AND q.state IN ('delayed', 'ready', 'running', 'suspended')
    RETURNING q.id
)
SELECT ARRAY(SELECT m.id FROM moved AS m) AS moved, (SELECT count(*) FROM able) AS able;
