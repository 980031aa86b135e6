-- Stage jobs in the caller's transaction and answer every input: with its own row, or with the live or staged job that
-- holds its key.
--
-- The advisory lock on the transaction's own number tells direct enqueues that staged keys may still be rolled back.
--
-- Relays are told when the transaction commits, unless the newest row that waits, as far as this transaction sees, was
-- staged so shortly ago that a relay is on its way. A commit that notifies waits for every other one.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
given AS MATERIALIZED (
    SELECT g.id, g.run_id, g.idempotency_key, g.input::jsonb AS input, g.lease_key
      FROM unnest(%(ids)s::uuid[], %(run_ids)s::uuid[], %(keys)s::text[], %(inputs)s::text[], %(lease_keys)s::text[])
           AS g (id, run_id, idempotency_key, input, lease_key)
),
announced AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(
               %(staging_lock)s::int, (pg_current_xact_id()::text::bigint %% 2147483647)::int) AS lock
),
live AS MATERIALIZED (
    SELECT g.idempotency_key, j.id, j.run_id
      FROM given AS g
      JOIN x_jobs AS j
        ON j.name = %(name)s::text
       AND coalesce(j.tenant_id, '') = coalesce(%(tenant_id)s::text, '')
       AND j.idempotency_key = g.idempotency_key
       AND j.state IN ('delayed', 'ready', 'running', 'suspended')
),
inserted AS (
    INSERT INTO x_outbox (id, run_id, name, queue, priority, input, idempotency_key, lease_key, max_attempts, run_at,
                          tenant_id, traceparent, enqueued_by, related_type_id, related_id, staged_at, refusals)
    SELECT g.id, g.run_id, %(name)s::text, %(queue)s::text, %(priority)s::int, g.input, g.idempotency_key,
           g.lease_key, %(max_attempts)s::int,
           coalesce(%(run_at)s::timestamptz, clock.now + coalesce(%(delay)s::interval, '0')),
           %(tenant_id)s::text, %(traceparent)s::text, %(enqueued_by)s::text,
           %(related_type_id)s::int, %(related_id)s::text, clock.now, 0
      FROM given AS g
     CROSS JOIN clock
     CROSS JOIN announced
     WHERE NOT EXISTS (SELECT 1 FROM live AS l WHERE l.idempotency_key = g.idempotency_key)
     ORDER BY g.idempotency_key
        ON CONFLICT DO NOTHING
    RETURNING id, run_id
),
told AS MATERIALIZED (
    SELECT pg_notify('ultimate_jobs_' || 'x_outbox'::regclass::oid::text, %(queue)s::text) AS sent
     WHERE EXISTS (SELECT 1 FROM inserted)
       AND NOT EXISTS (
           SELECT 1
             FROM (SELECT o.retry_at
                     FROM x_outbox AS o
                    WHERE o.published_at IS NULL
                      AND o.staged_at
                        > coalesce(%(now)s::timestamptz, statement_timestamp()) - %(wake_patience)s::interval
                    ORDER BY o.staged_at DESC, o.id DESC
                    LIMIT 1) AS newest
            WHERE newest.retry_at IS NULL
       )
)
SELECT other.asked, other.id, other.run_id
  FROM (SELECT count(*) AS queues FROM told) AS told
  LEFT JOIN (
       SELECT g.id AS asked, coalesce(l.id, staged.id) AS id, coalesce(l.run_id, staged.run_id) AS run_id
         FROM given AS g
         LEFT JOIN live AS l ON l.idempotency_key = g.idempotency_key
         LEFT JOIN LATERAL (
              SELECT o.id, o.run_id
                FROM x_outbox AS o
               WHERE o.name = %(name)s::text
                 AND coalesce(o.tenant_id, '') = coalesce(%(tenant_id)s::text, '')
                 AND o.idempotency_key = g.idempotency_key
                 AND o.published_at IS NULL
         ) AS staged ON TRUE
        WHERE NOT EXISTS (SELECT FROM inserted AS i WHERE i.id = g.id)
  ) AS other ON TRUE;
