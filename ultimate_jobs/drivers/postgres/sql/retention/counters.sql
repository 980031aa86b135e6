-- Delete the oldest counters of a span whose bucket began before an instant.
WITH expired AS MATERIALIZED (
    SELECT c.id
      FROM x_job_counters AS c
     WHERE c.span = %(span)s::int
       AND c.bucket < %(before)s::timestamptz
     ORDER BY c.bucket
     LIMIT %(limit)s::int
       FOR UPDATE SKIP LOCKED
),
gone AS (
    DELETE FROM x_job_counters AS c
     USING expired AS e
     WHERE c.id = e.id
    RETURNING c.id
)
SELECT count(*) AS counters
  FROM gone;
