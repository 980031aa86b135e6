-- Take a slot of its key for each of these claims; for those that get none, count the other runs that hold slots.
--
-- The primary key decides between claims of the same moment: the later one waits for the earlier, and then gets nothing
-- although it had seen a free slot (`raced`). Slots are tried in an order of this worker's own, so that is seldom.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
given AS MATERIALIZED (
    SELECT g.id, g.run_id, g.claim, g.lease_key, g.cap,
           row_number() OVER (PARTITION BY g.lease_key ORDER BY g.place) AS turn
      FROM unnest(%(ids)s::uuid[], %(run_ids)s::uuid[], %(claims)s::int[], %(lease_keys)s::text[], %(caps)s::int[])
           WITH ORDINALITY AS g (id, run_id, claim, lease_key, cap, place)
),
wanted AS MATERIALIZED (
    SELECT g.lease_key, min(g.cap) AS cap, count(*) AS turns
      FROM given AS g
     GROUP BY g.lease_key
),
living AS MATERIALIZED (
    SELECT w.lease_key, held.slot, held.run_id
      FROM wanted AS w
     CROSS JOIN LATERAL (
           SELECT l.slot, l.run_id
             FROM x_job_leases AS l
            WHERE l.lease_key = w.lease_key
              AND l.expires_at > coalesce(%(now)s::timestamptz, statement_timestamp())
           OFFSET 0
     ) AS held
),
free AS MATERIALIZED (
    SELECT w.lease_key, open_slots.slot, open_slots.turn
      FROM wanted AS w
     CROSS JOIN LATERAL (SELECT count(*) AS slots FROM living AS v WHERE v.lease_key = w.lease_key) AS taken
     CROSS JOIN LATERAL (
           SELECT s.slot, row_number() OVER (ORDER BY hashint8(s.slot # %(seed)s::int)) AS turn
             FROM generate_series(1, least(w.cap, taken.slots + 2 * w.turns + 8)) AS s (slot)
            WHERE NOT EXISTS (SELECT 1 FROM living AS v WHERE v.lease_key = w.lease_key AND v.slot = s.slot)
     ) AS open_slots
     WHERE open_slots.turn <= w.cap - taken.slots
),
placed AS MATERIALIZED (
    SELECT g.id, g.run_id, g.claim, g.lease_key, f.slot
      FROM given AS g
      JOIN free AS f ON f.lease_key = g.lease_key AND f.turn = g.turn
),
acquired AS (
    INSERT INTO x_job_leases AS l (lease_key, slot, job_id, run_id, claim, worker, acquired_at, expires_at)
    SELECT p.lease_key, p.slot, p.id, p.run_id, p.claim, %(worker)s::text, clock.now, clock.now + %(lease)s::interval
      FROM placed AS p
     CROSS JOIN clock
     ORDER BY p.lease_key, p.slot
        ON CONFLICT (lease_key, slot) DO UPDATE
       SET job_id = excluded.job_id,
           run_id = excluded.run_id,
           claim = excluded.claim,
           worker = excluded.worker,
           acquired_at = excluded.acquired_at,
           expires_at = excluded.expires_at
     WHERE l.expires_at <= (SELECT clock.now FROM clock)
    RETURNING l.job_id, l.slot
)
SELECT g.id, a.slot,
       (SELECT count(*) FROM living AS v WHERE v.lease_key = g.lease_key AND v.run_id <> g.run_id) AS others,
       p.id IS NOT NULL AND a.slot IS NULL AS raced
  FROM given AS g
  LEFT JOIN placed AS p ON p.id = g.id
  LEFT JOIN acquired AS a ON a.job_id = g.id;
