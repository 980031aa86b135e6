-- Delete slots that ran out before an instant: nobody holds them, and nobody has wanted them since.
WITH expired AS MATERIALIZED (
    SELECT l.lease_key, l.slot
      FROM x_job_leases AS l
     WHERE l.expires_at < %(before)s::timestamptz
     LIMIT %(limit)s::int
       FOR UPDATE SKIP LOCKED
),
gone AS (
    DELETE FROM x_job_leases AS l
     USING expired AS e
     WHERE l.lease_key = e.lease_key
       AND l.slot = e.slot
    RETURNING l.slot
)
SELECT count(*) AS leases
  FROM gone;
