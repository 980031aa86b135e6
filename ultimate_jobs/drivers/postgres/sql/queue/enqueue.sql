-- Publish jobs straight to the queue and answer every input: with its own row, or with the live job that holds its key.
--
-- A transaction that has staged something holds an advisory lock on its own number (outbox/stage.sql). When one of
-- them is still open, nothing is written and every answer is empty: the caller then goes through the outbox, whose
-- unique index waits for the exact key. A snapshot lists open transactions only up to the last that ended; the newest
-- have the numbers from there to our own. Savepoints have numbers too, so past two hundred nobody is asked and the
-- outbox decides.
--
-- Workers are told of the queue when something in it became due. A commit that notifies waits for every other one, so it
-- is left out when a committed row has said it: one that was due when it was written, so shortly ago that whoever heard
-- of it still looks often (`wake_slot`), or that nobody has come for yet (`wake_patience`). What was rolled back is not
-- seen and silences nobody. The newest hundred rows are looked at; the planner does not see that limit, or it would sort
-- every row of a table that it knows little of.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
given AS MATERIALIZED (
    SELECT g.id, g.run_id, g.idempotency_key, g.input::jsonb AS input, g.lease_key
      FROM unnest(%(ids)s::uuid[], %(run_ids)s::uuid[], %(keys)s::text[], %(inputs)s::text[], %(lease_keys)s::text[])
           AS g (id, run_id, idempotency_key, input, lease_key)
),
open_transactions AS MATERIALIZED (
    SELECT listed.xid::text::bigint AS xid
      FROM pg_snapshot_xip(pg_current_snapshot()) AS listed (xid)
     UNION ALL
    SELECT newest.xid
      FROM generate_series(pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
                           pg_current_xact_id()::text::bigint - 1) AS newest (xid)
     LIMIT 201
),
nobody_stages AS MATERIALIZED (
    SELECT (SELECT count(*) FROM open_transactions) <= 200
       AND NOT EXISTS (
        SELECT 1
          FROM open_transactions AS others
         WHERE NOT pg_try_advisory_xact_lock_shared(
                       %(staging_lock)s::int, (others.xid %% 2147483647)::int)
    ) AS holds
),
staged AS MATERIALIZED (
    SELECT g.idempotency_key, o.id, o.run_id
      FROM given AS g
      JOIN x_outbox AS o
        ON o.name = %(name)s::text
       AND coalesce(o.tenant_id, '') = coalesce(%(tenant_id)s::text, '')
       AND o.idempotency_key = g.idempotency_key
       AND o.published_at IS NULL
),
inserted AS (
    INSERT INTO x_jobs (id, run_id, name, queue, priority, input, idempotency_key, lease_key, max_attempts, state,
                        attempt, claim, run_at, tenant_id, traceparent, enqueued_by, related_type_id, related_id,
                        created_at, updated_at)
    SELECT g.id, g.run_id, %(name)s::text, %(queue)s::text, %(priority)s::int, g.input, g.idempotency_key,
           g.lease_key, %(max_attempts)s::int,
           CASE WHEN due.at > clock.now THEN 'delayed' ELSE 'ready' END, 0, 0,
           due.at, %(tenant_id)s::text, %(traceparent)s::text, %(enqueued_by)s::text,
           %(related_type_id)s::int, %(related_id)s::text, clock.now, clock.now
      FROM given AS g
     CROSS JOIN clock
     CROSS JOIN nobody_stages
     CROSS JOIN LATERAL (
           SELECT coalesce(%(run_at)s::timestamptz, clock.now + coalesce(%(delay)s::interval, '0')) AS at
     ) AS due
     WHERE nobody_stages.holds
       AND NOT EXISTS (SELECT 1 FROM staged AS s WHERE s.idempotency_key = g.idempotency_key)
     ORDER BY g.idempotency_key
        ON CONFLICT DO NOTHING
    RETURNING id, run_id, state
),
told AS MATERIALIZED (
    SELECT pg_notify('ultimate_jobs_' || 'x_jobs'::regclass::oid::text, %(queue)s::text) AS sent
     WHERE EXISTS (SELECT 1 FROM inserted AS i WHERE i.state = 'ready')
       AND NOT EXISTS (
           SELECT 1
             FROM (SELECT j.queue, j.priority, j.state, j.run_at, j.created_at
                     FROM x_jobs AS j
                    WHERE j.created_at
                        > coalesce(%(now)s::timestamptz, statement_timestamp()) - %(wake_patience)s::interval
                    ORDER BY j.created_at DESC, j.id DESC
                    LIMIT (SELECT 100)) AS newest
            WHERE newest.queue = %(queue)s::text
              AND newest.run_at <= newest.created_at
              AND (newest.created_at > coalesce(%(now)s::timestamptz, statement_timestamp()) - %(wake_slot)s::interval
                   OR (newest.state = 'ready' AND newest.priority = %(priority)s::int))
       )
)
SELECT other.asked, other.id, other.run_id
  FROM (SELECT count(*) AS queues FROM told) AS told
  LEFT JOIN (
       SELECT g.id AS asked, coalesce(s.id, live.id) AS id, coalesce(s.run_id, live.run_id) AS run_id
         FROM given AS g
         LEFT JOIN staged AS s ON s.idempotency_key = g.idempotency_key
         LEFT JOIN LATERAL (
              SELECT j.id, j.run_id
                FROM x_jobs AS j
               WHERE j.name = %(name)s::text
                 AND coalesce(j.tenant_id, '') = coalesce(%(tenant_id)s::text, '')
                 AND j.idempotency_key = g.idempotency_key
                 AND j.state IN ('delayed', 'ready', 'running', 'suspended')
         ) AS live ON TRUE
        WHERE NOT EXISTS (SELECT FROM inserted AS i WHERE i.id = g.id)
  ) AS other ON TRUE;
