-- Delete the oldest events that expired before an instant.
WITH expired AS MATERIALIZED (
    SELECT e.id
      FROM x_job_events AS e
     WHERE e.expires_at < %(before)s::timestamptz
     ORDER BY e.expires_at
     LIMIT %(limit)s::int
       FOR UPDATE SKIP LOCKED
),
gone AS (
    DELETE FROM x_job_events AS e
     USING expired AS x
     WHERE e.id = x.id
    RETURNING e.id
)
SELECT count(*) AS events
  FROM gone;
