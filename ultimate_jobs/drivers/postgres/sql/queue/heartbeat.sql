-- Give one sign of life for every claim and every slot of a worker process, say what the process is doing, and answer the
-- claims and slots it no longer holds. It vouches for the claims it names: one that it does not know, because the answer
-- to the claim was lost, is let go of once its own deadline has passed. A slot is renewed only while it is its holder's
-- and has not run out. Rows of processes that ended without a farewell a day ago go.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
beat AS (
    INSERT INTO x_job_workers AS w (id, host, pid, queues, jobs, concurrency, state, running, started_at, beat_at,
                                     expires_at)
    SELECT %(worker)s::text, %(host)s::text, %(pid)s::int, to_jsonb(%(queues)s::text[]), to_jsonb(%(jobs)s::text[]),
           %(concurrency)s::int, %(state)s::text, to_jsonb(%(ids)s::uuid[]), clock.now, clock.now,
           clock.now + %(lease)s::interval
      FROM clock
        ON CONFLICT (id) DO UPDATE
       SET jobs = excluded.jobs,
           state = excluded.state,
           running = excluded.running,
           beat_at = excluded.beat_at,
           expires_at = excluded.expires_at
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
held AS MATERIALIZED (
    SELECT h.id, h.claim, h.lease_key, h.slot
      FROM unnest(%(ids)s::uuid[], %(claims)s::int[], %(lease_keys)s::text[], %(slots)s::int[])
           AS h (id, claim, lease_key, slot)
),
renewed AS (
    UPDATE x_job_leases AS l
       SET expires_at = clock.now + %(lease)s::interval
      FROM held AS h, clock
     WHERE l.lease_key = h.lease_key
       AND l.slot = h.slot
       AND l.job_id = h.id
       AND l.claim = h.claim
       AND l.expires_at > clock.now
    RETURNING l.job_id, l.claim
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
                    FROM held AS h
                   WHERE h.id = u.id
                     AND h.claim = u.claim)
              FOR UPDATE OF u SKIP LOCKED)
    RETURNING j.id
)
SELECT h.id, h.claim, c.claim_lost, s.slot_lost
  FROM held AS h
 CROSS JOIN LATERAL (
       SELECT NOT EXISTS (
              SELECT 1
                FROM x_jobs AS j
               WHERE j.id = h.id
                 AND j.claim = h.claim
                 AND j.claimed_by = %(worker)s::text
                 AND j.state = 'running') AS claim_lost
 ) AS c
 CROSS JOIN LATERAL (
       SELECT h.slot IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM renewed AS r WHERE r.job_id = h.id AND r.claim = h.claim) AS slot_lost
 ) AS s
 WHERE c.claim_lost OR s.slot_lost;
