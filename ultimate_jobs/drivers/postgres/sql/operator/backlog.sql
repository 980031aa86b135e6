-- Count what waits in the outbox, up to a cap, and find how long the oldest of it has waited.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
waiting AS MATERIALIZED (
    SELECT o.staged_at, o.refusals
      FROM x_outbox AS o
     WHERE o.published_at IS NULL
     ORDER BY o.staged_at, o.id
     LIMIT %(cap)s::int
)
SELECT count(*) AS waiting, count(*) FILTER (WHERE w.refusals > 0) AS refused,
       greatest(extract(epoch FROM max(clock.now) - min(w.staged_at)), 0)::float8 AS oldest_seconds
  FROM clock
  LEFT JOIN waiting AS w ON TRUE
 WHERE w.staged_at IS NOT NULL;
