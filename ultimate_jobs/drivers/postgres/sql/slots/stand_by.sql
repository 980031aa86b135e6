-- Hand claims back that got no slot, uncounted, and let them stand by until a slot of their key is left; so do up to a
-- thousand due rows of the same keys, which the next claims would only find as busy.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
given AS MATERIALIZED (
    SELECT g.id, g.claim, g.lease_key
      FROM unnest(%(ids)s::uuid[], %(claims)s::int[], %(lease_keys)s::text[]) AS g (id, claim, lease_key)
),
crowd AS MATERIALIZED (
    SELECT behind.id
      FROM (SELECT DISTINCT g.lease_key FROM given AS g) AS k
     CROSS JOIN LATERAL (
           SELECT j.id
             FROM x_jobs AS j
            WHERE j.lease_key = k.lease_key
              AND j.state IN ('delayed', 'ready', 'suspended')
              AND NOT j.blocked
              AND j.run_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
            ORDER BY j.run_at
            LIMIT 1000
              FOR UPDATE SKIP LOCKED
     ) AS behind
),
handed_back AS (
    UPDATE x_jobs AS j
       SET state = 'ready',
           attempt = greatest(j.attempt - 1, 0),
           lease_key = g.lease_key,
           blocked = TRUE,
           claimed_by = NULL,
           visible_at = NULL,
           updated_at = clock.now
      FROM given AS g, clock
     WHERE j.id = g.id
       AND j.claim = g.claim
       AND j.claimed_by = %(worker)s::text
       AND j.state = 'running'
    RETURNING j.id, j.claim
),
blocked AS (
    UPDATE x_jobs AS j
       SET blocked = TRUE
      FROM crowd AS c
     WHERE j.id = c.id
    RETURNING j.id
)
SELECT h.id, h.claim
  FROM handed_back AS h;
