-- Find what an enqueue has become: a job, the live job that answers for it, or a row that still waits for the relay.
SELECT j.name, j.state, j.result::text AS result, j.last_error
  FROM x_jobs AS j
 WHERE j.id IN (%(id)s::uuid, (SELECT o.job_id FROM x_outbox AS o WHERE o.id = %(id)s::uuid))
 UNION ALL
SELECT o.name, NULL AS state, NULL AS result, NULL AS last_error
  FROM x_outbox AS o
 WHERE o.id = %(id)s::uuid
   AND o.published_at IS NULL;
