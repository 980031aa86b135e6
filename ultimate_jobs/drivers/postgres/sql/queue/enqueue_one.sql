-- Publish jobs straight to the queue one by one, and answer each: with its own row, or with the holder of its key.
--
-- What enqueue.sql does for many. There is no answer when an open transaction may have staged the key, or when its
-- holder is too new for this snapshot: the caller then goes through the outbox. When no other transaction is open,
-- nobody has to be asked.
WITH open_transactions AS MATERIALIZED (
    SELECT pg_snapshot_xip(pg_current_snapshot())::text::bigint AS xid
     UNION ALL
    SELECT generate_series(pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
                           pg_current_xact_id()::text::bigint - 1)
     LIMIT 201
),
staged AS MATERIALIZED (
    SELECT o.id, o.run_id
      FROM x_outbox AS o
     WHERE o.name = %(name)s::text
       AND coalesce(o.tenant_id, '') = coalesce(%(tenant_id)s::text, '')
       AND o.idempotency_key = %(idempotency_key)s::text
       AND o.published_at IS NULL
),
inserted AS (
    INSERT INTO x_jobs (id, run_id, name, queue, priority, input, idempotency_key, lease_key, max_attempts, state,
                        attempt, claim, run_at, tenant_id, traceparent, enqueued_by, related_type_id, related_id,
                        created_at, updated_at)
    SELECT %(id)s::uuid, %(run_id)s::uuid, %(name)s::text, %(queue)s::text, %(priority)s::int, %(input)s::jsonb,
           %(idempotency_key)s::text, %(lease_key)s::text, %(max_attempts)s::int,
           CASE WHEN due.at > clock.now THEN 'delayed' ELSE 'ready' END, 0, 0,
           due.at, %(tenant_id)s::text, %(traceparent)s::text, %(enqueued_by)s::text,
           %(related_type_id)s::int, %(related_id)s::text, clock.now, clock.now
      FROM (SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now) AS clock
     CROSS JOIN LATERAL (
           SELECT coalesce(%(run_at)s::timestamptz, clock.now + coalesce(%(delay)s::interval, '0')) AS at
     ) AS due
     WHERE NOT EXISTS (SELECT FROM staged)
       AND CASE
           WHEN pg_snapshot_xmin(pg_current_snapshot()) = pg_current_xact_id()
            AND pg_snapshot_xmax(pg_current_snapshot()) = pg_current_xact_id() THEN TRUE
           WHEN (SELECT count(*) FROM open_transactions) > 200 THEN FALSE
           ELSE NOT EXISTS (
               SELECT FROM open_transactions AS others
                WHERE NOT pg_try_advisory_xact_lock_shared(
                              %(staging_lock)s::int, (others.xid %% 2147483647)::int))
           END
        ON CONFLICT DO NOTHING
    RETURNING id, run_id, state
)
SELECT i.id, i.run_id, FALSE AS deduped,
       CASE
       WHEN i.state = 'ready'
        AND NOT EXISTS (
            SELECT FROM (SELECT j.queue, j.priority, j.state, j.run_at, j.created_at
                           FROM x_jobs AS j
                          WHERE j.created_at
                              > coalesce(%(now)s::timestamptz, statement_timestamp()) - %(wake_patience)s::interval
                          ORDER BY j.created_at DESC, j.id DESC
                          LIMIT (SELECT 100)) AS newest
             WHERE newest.queue = %(queue)s::text
               AND newest.run_at <= newest.created_at
               AND (newest.created_at
                    > coalesce(%(now)s::timestamptz, statement_timestamp()) - %(wake_slot)s::interval
                    OR (newest.state = 'ready' AND newest.priority = %(priority)s::int)))
       THEN pg_notify('ultimate_jobs_' || 'x_jobs'::regclass::oid::text, %(queue)s::text)
       END AS told
  FROM inserted AS i
 UNION ALL
SELECT s.id, s.run_id, TRUE, NULL
  FROM staged AS s
 UNION ALL
SELECT j.id, j.run_id, TRUE, NULL
  FROM x_jobs AS j
 WHERE NOT EXISTS (SELECT FROM inserted)
   AND j.name = %(name)s::text
   AND coalesce(j.tenant_id, '') = coalesce(%(tenant_id)s::text, '')
   AND j.idempotency_key = %(idempotency_key)s::text
   AND j.state IN ('delayed', 'ready', 'running', 'suspended');
