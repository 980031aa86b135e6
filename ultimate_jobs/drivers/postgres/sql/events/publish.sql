-- Publish an event and make the runs that wait for it due, in the order of their ids. Workers are told of their queues.
-- One that is due already is moved as well, by the least there is: a second look that has read the row leaves it then, and
-- one that has put it off meanwhile is undone, for what counts is the row as it was locked.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
published AS (
    INSERT INTO x_job_events (id, name, correlation_key, payload, published_at, expires_at, xid)
    SELECT %(id)s::uuid, %(name)s::text, %(correlation_key)s::text, %(payload)s::jsonb, clock.now,
           clock.now + %(ttl)s::interval, pg_current_xact_id()::text::bigint
      FROM clock
    RETURNING id
),
waiters AS MATERIALIZED (
    SELECT j.id, j.run_at
      FROM x_job_steps AS s
      JOIN x_jobs AS j ON j.id = s.job_id
     WHERE s.status = 'waiting'
       AND s.event = %(name)s::text
       AND (s.match IS NULL OR s.match = %(correlation_key)s::text)
       AND j.state = 'suspended'
     ORDER BY j.id
       FOR NO KEY UPDATE OF j
),
woken AS (
    UPDATE x_jobs AS j
       SET run_at = least(clock.now, w.run_at - interval '1 microsecond')
      FROM waiters AS w, clock
     WHERE j.id = w.id
    RETURNING j.id, j.queue
),
told AS MATERIALIZED (
    SELECT pg_notify('ultimate_jobs_' || 'x_jobs'::regclass::oid::text, due.queue) AS sent
      FROM (SELECT DISTINCT w.queue FROM woken AS w) AS due
)
SELECT p.id, (SELECT count(*) FROM woken) AS woken
  FROM published AS p
 CROSS JOIN (SELECT count(*) AS queues FROM told) AS told;
