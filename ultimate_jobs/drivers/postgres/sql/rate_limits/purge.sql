-- Delete the full ones among the next buckets in the order of their keys; one that is being taken from is passed over.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
looked_at AS MATERIALIZED (
    SELECT b.key
      FROM x_rate_limit AS b
     WHERE b.key > %(after)s::text
     ORDER BY b.key
     LIMIT %(limit)s::int
),
full_again AS MATERIALIZED (
    SELECT b.key
      FROM looked_at AS l
     CROSS JOIN clock
      JOIN x_rate_limit AS b ON b.key = l.key
     WHERE b.tokens + extract(epoch FROM clock.now - b.last_at)::float8 * b.refill_per_second >= b.capacity
       FOR UPDATE OF b SKIP LOCKED
),
deleted AS (
    DELETE FROM x_rate_limit AS b
     USING full_again AS f
     WHERE b.key = f.key
    RETURNING b.key
)
SELECT (SELECT count(*) FROM deleted) AS deleted,
       (SELECT count(*) FROM looked_at) AS looked_at,
       (SELECT l.key FROM looked_at AS l ORDER BY l.key DESC LIMIT 1) AS last_key;
