-- Give one sign of life for every claim of a worker process, and answer the claims it no longer holds. It vouches for the
-- claims it names: one that it does not know, because the answer to the claim was lost, is let go of once its own deadline
-- has passed. Rows of processes that ended without a farewell a day ago go.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
beat AS (
    INSERT INTO x_job_workers AS w (id, started_at, beat_at, expires_at)
    SELECT %(worker)s::text, clock.now, clock.now, clock.now + %(lease)s::interval
      FROM clock
        ON CONFLICT (id) DO UPDATE
       SET beat_at = excluded.beat_at, expires_at = excluded.expires_at
    RETURNING w.id
),
forgotten AS (
    DELETE FROM x_job_workers AS w
     WHERE w.id IN (
           SELECT d.id
             FROM x_job_workers AS d, clock
            WHERE d.expires_at < clock.now - interval '1 day'
              FOR UPDATE OF d SKIP LOCKED)
    RETURNING w.id
),
unknown AS (
    UPDATE x_jobs AS j
       SET claimed_by = %(worker)s::text || ' (disowned)'
     WHERE j.id IN (
           SELECT u.id
             FROM x_jobs AS u, clock
            WHERE u.state = 'running'
              AND u.claimed_by = %(worker)s::text
              AND u.visible_at <= clock.now
              AND NOT EXISTS (
                  SELECT 1
                    FROM unnest(%(ids)s::uuid[], %(claims)s::int[]) AS h (id, claim)
                   WHERE h.id = u.id
                     AND h.claim = u.claim)
              FOR UPDATE OF u SKIP LOCKED)
    RETURNING j.id
)
SELECT h.id, h.claim
  FROM unnest(%(ids)s::uuid[], %(claims)s::int[]) AS h (id, claim)
 WHERE NOT EXISTS (
       SELECT 1
         FROM x_jobs AS j
        WHERE j.id = h.id
          AND j.claim = h.claim
          AND j.claimed_by = %(worker)s::text
          AND j.state = 'running');
