-- Delete the oldest outbox rows that were published before an instant.
WITH expired AS MATERIALIZED (
    SELECT o.id
      FROM x_outbox AS o
     WHERE o.published_at < %(before)s::timestamptz
     ORDER BY o.published_at
     LIMIT %(limit)s::int
       FOR UPDATE SKIP LOCKED
),
gone AS (
    DELETE FROM x_outbox AS o
     USING expired AS e
     WHERE o.id = e.id
    RETURNING o.id
)
SELECT count(*) AS receipts
  FROM gone;
