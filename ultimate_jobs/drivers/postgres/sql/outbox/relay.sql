-- One pass of the relay: move the oldest committed rows to the queue.
--
-- A row whose key a live job holds stays, marked published, and names that job. A row that conflicts with a job this
-- snapshot does not see is left for the next pass. Rows are found by state, never by a high-water mark, so a
-- transaction that commits late is not passed by. Workers are told of each queue in which something became due.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
batch AS MATERIALIZED (
    SELECT o.id, o.run_id, o.name, o.queue, o.priority, o.input, o.idempotency_key, o.lease_key, o.max_attempts,
           o.run_at, o.tenant_id, o.traceparent, o.enqueued_by, o.related_type_id, o.related_id, o.staged_at
      FROM x_outbox AS o
     WHERE o.published_at IS NULL
       AND (o.retry_at IS NULL OR o.retry_at <= coalesce(%(now)s::timestamptz, statement_timestamp()))
       AND (%(only)s::uuid[] IS NULL OR o.id = ANY (%(only)s::uuid[]))
     ORDER BY o.staged_at, o.id
     LIMIT %(limit)s::int
       FOR UPDATE SKIP LOCKED
),
published AS (
    INSERT INTO x_jobs (id, run_id, name, queue, priority, input, idempotency_key, lease_key, max_attempts, state,
                        attempt, claim, run_at, tenant_id, traceparent, enqueued_by, related_type_id, related_id,
                        created_at, updated_at)
    SELECT b.id, b.run_id, b.name, b.queue, b.priority, b.input, b.idempotency_key, b.lease_key, b.max_attempts,
           CASE WHEN b.run_at > clock.now THEN 'delayed' ELSE 'ready' END, 0, 0,
           b.run_at, b.tenant_id, b.traceparent, b.enqueued_by, b.related_type_id, b.related_id,
           b.staged_at, clock.now
      FROM batch AS b
     CROSS JOIN clock
     ORDER BY b.name, coalesce(b.tenant_id, ''), b.idempotency_key
        ON CONFLICT DO NOTHING
    RETURNING id, queue, state
),
moved AS (
    DELETE FROM x_outbox AS o
     USING published AS p
     WHERE o.id = p.id
    RETURNING o.id
),
answered AS MATERIALIZED (
    SELECT b.id, holder.id AS job_id
      FROM batch AS b
     CROSS JOIN LATERAL (
           SELECT j.id
             FROM x_jobs AS j
            WHERE j.id = b.id
            UNION ALL
           SELECT j.id
             FROM x_jobs AS j
            WHERE j.name = b.name
              AND coalesce(j.tenant_id, '') = coalesce(b.tenant_id, '')
              AND j.idempotency_key = b.idempotency_key
              AND j.state IN ('delayed', 'ready', 'running', 'suspended')
            LIMIT 1
     ) AS holder
     WHERE NOT EXISTS (SELECT 1 FROM published AS p WHERE p.id = b.id)
),
receipts AS (
    UPDATE x_outbox AS o
       SET published_at = clock.now, job_id = a.job_id
      FROM answered AS a, clock
     WHERE o.id = a.id
    RETURNING o.id
),
told AS MATERIALIZED (
    SELECT pg_notify('ultimate_jobs_' || 'x_jobs'::regclass::oid::text, due.queue) AS sent
      FROM (SELECT DISTINCT p.queue FROM published AS p WHERE p.state = 'ready') AS due
)
SELECT (SELECT count(*) FROM batch) AS seen,
       (SELECT count(*) FROM moved) AS published,
       (SELECT count(*) FROM receipts) AS deduped
  FROM (SELECT count(*) AS queues FROM told) AS told;
