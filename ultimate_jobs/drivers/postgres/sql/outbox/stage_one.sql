-- Stage jobs in the caller's transaction one by one, and answer each: with its own row, or with the holder of its key.
--
-- What stage.sql does for many. There is no answer when the holder of the key is too new for this snapshot.
WITH live AS MATERIALIZED (
    SELECT j.id, j.run_id
      FROM x_jobs AS j
     WHERE j.name = %(name)s::text
       AND coalesce(j.tenant_id, '') = coalesce(%(tenant_id)s::text, '')
       AND j.idempotency_key = %(idempotency_key)s::text
       AND j.state IN ('delayed', 'ready', 'running', 'suspended')
),
announced AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(
               %(staging_lock)s::int, (pg_current_xact_id()::text::bigint %% 2147483647)::int) AS lock
),
inserted AS (
    INSERT INTO x_outbox (id, run_id, name, queue, priority, input, idempotency_key, lease_key, max_attempts, run_at,
                          tenant_id, traceparent, enqueued_by, related_type_id, related_id, staged_at, refusals)
    SELECT %(id)s::uuid, %(run_id)s::uuid, %(name)s::text, %(queue)s::text, %(priority)s::int, %(input)s::jsonb,
           %(idempotency_key)s::text, %(lease_key)s::text, %(max_attempts)s::int,
           coalesce(%(run_at)s::timestamptz, clock.now + coalesce(%(delay)s::interval, '0')),
           %(tenant_id)s::text, %(traceparent)s::text, %(enqueued_by)s::text,
           %(related_type_id)s::int, %(related_id)s::text, clock.now, 0
      FROM (SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now) AS clock
     CROSS JOIN announced
     WHERE NOT EXISTS (SELECT FROM live)
        ON CONFLICT DO NOTHING
    RETURNING id, run_id
)
SELECT i.id, i.run_id, FALSE AS deduped,
       CASE
       WHEN NOT EXISTS (
            SELECT FROM (SELECT o.retry_at
                           FROM x_outbox AS o
                          WHERE o.published_at IS NULL
                            AND o.staged_at
                              > coalesce(%(now)s::timestamptz, statement_timestamp()) - %(wake_patience)s::interval
                          ORDER BY o.staged_at DESC, o.id DESC
                          LIMIT 1) AS newest
             WHERE newest.retry_at IS NULL)
       THEN pg_notify('ultimate_jobs_' || 'x_outbox'::regclass::oid::text, %(queue)s::text)
       END AS told
  FROM inserted AS i
 UNION ALL
SELECT l.id, l.run_id, TRUE, NULL
  FROM live AS l
 UNION ALL
SELECT o.id, o.run_id, TRUE, NULL
  FROM x_outbox AS o
 WHERE NOT EXISTS (SELECT FROM inserted)
   AND NOT EXISTS (SELECT FROM live)
   AND o.name = %(name)s::text
   AND coalesce(o.tenant_id, '') = coalesce(%(tenant_id)s::text, '')
   AND o.idempotency_key = %(idempotency_key)s::text
   AND o.published_at IS NULL;
