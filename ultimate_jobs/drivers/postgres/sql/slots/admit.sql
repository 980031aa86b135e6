-- Let rows that stand by be claimed again where their key has free slots: a holder died, or left at the moment in which
-- they began to stand by. At most 200 keys a pass, in their order, after the one where the last pass ended.
WITH RECURSIVE clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
keys AS (
    SELECT (SELECT j.lease_key
              FROM x_jobs AS j
             WHERE j.blocked
               AND j.state IN ('delayed', 'ready', 'suspended')
               AND j.lease_key > %(after)s::text
             ORDER BY j.lease_key
             LIMIT 1) AS lease_key, 1 AS turn
     UNION ALL
    SELECT (SELECT j.lease_key
              FROM x_jobs AS j
             WHERE j.blocked
               AND j.state IN ('delayed', 'ready', 'suspended')
               AND j.lease_key > k.lease_key
             ORDER BY j.lease_key
             LIMIT 1), k.turn + 1
      FROM keys AS k
     WHERE k.lease_key IS NOT NULL
       AND k.turn < 200
),
known AS MATERIALIZED (
    SELECT n.name, n.cap
      FROM unnest(%(names)s::text[], %(caps)s::int[]) AS n (name, cap)
),
vacant AS MATERIALIZED (
    SELECT k.lease_key, least(caps.cap - taken.slots, 1000) AS slots
      FROM keys AS k
     CROSS JOIN LATERAL (
           SELECT j.name
             FROM x_jobs AS j
            WHERE j.lease_key = k.lease_key
              AND j.blocked
              AND j.state IN ('delayed', 'ready', 'suspended')
            ORDER BY j.priority DESC, j.run_at, j.id
            LIMIT 1
     ) AS head
      JOIN known AS caps ON caps.name = head.name
     CROSS JOIN clock
     CROSS JOIN LATERAL (
           SELECT count(*) AS slots
             FROM x_job_leases AS l
            WHERE l.lease_key = k.lease_key
              AND l.expires_at > clock.now
     ) AS taken
     WHERE taken.slots < caps.cap
),
heads AS MATERIALIZED (
    SELECT next.id
      FROM vacant AS v
     CROSS JOIN LATERAL (
           SELECT j.id
             FROM x_jobs AS j
            WHERE j.lease_key = v.lease_key
              AND j.blocked
              AND j.state IN ('delayed', 'ready', 'suspended')
            ORDER BY j.priority DESC, j.run_at, j.id
            LIMIT v.slots
              FOR UPDATE SKIP LOCKED
     ) AS next
     WHERE NOT EXISTS (
           SELECT 1
             FROM x_jobs AS j
            WHERE j.lease_key = v.lease_key
              AND j.state IN ('delayed', 'ready', 'suspended')
              AND NOT j.blocked
              AND j.run_at <= coalesce(%(now)s::timestamptz, statement_timestamp()))
),
admitted AS (
    UPDATE x_jobs AS j
       SET blocked = FALSE
      FROM heads AS h
     WHERE j.id = h.id
    RETURNING j.queue
),
told AS MATERIALIZED (
    SELECT pg_notify('ultimate_jobs_' || 'x_jobs'::regclass::oid::text, forward.queue) AS sent
      FROM (SELECT DISTINCT a.queue FROM admitted AS a) AS forward
)
SELECT (SELECT max(k.lease_key) FROM keys AS k) AS last_key,
       (SELECT count(*) FROM keys AS k WHERE k.lease_key IS NOT NULL) AS seen,
       (SELECT count(*) FROM admitted) AS admitted
  FROM (SELECT count(*) AS queues FROM told) AS told;
