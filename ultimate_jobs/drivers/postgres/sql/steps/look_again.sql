-- Look once more at runs that have just begun to wait: an event may have been published between the last look and the
-- suspension. Where somebody was publishing right before this statement, look again in a second. Otherwise let the run
-- rest until its poll. A row that somebody has moved since this statement began stays as it is.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
waiting AS MATERIALIZED (
    SELECT s.job_id, s.wake_at, g.poll, q.run_at,
           EXISTS (
               SELECT 1
                 FROM x_job_events AS e
                WHERE e.name = s.event
                  AND (s.match IS NULL OR e.correlation_key = s.match)
                  AND e.expires_at > clock.now
                  AND e.published_at >= s.started_at - interval '1 hour'
                  AND (NOT pg_visible_in_snapshot(e.xid::text::xid8, s.waited_from::pg_snapshot)
                       OR e.published_at > s.started_at + interval '1 hour')
           ) AS has_come
      FROM unnest(%(ids)s::uuid[], %(polls)s::interval[]) AS g (id, poll)
      JOIN x_jobs AS q ON q.id = g.id
      JOIN x_job_steps AS s ON s.job_id = g.id
     CROSS JOIN clock
     WHERE s.status = 'waiting'
)
UPDATE x_jobs AS j
   SET run_at = CASE
           WHEN w.has_come THEN clock.now
           WHEN %(publishing)s::bool THEN least(w.wake_at, clock.now + interval '1 second')
           ELSE least(w.wake_at, clock.now + w.poll)
       END
  FROM waiting AS w, clock
 WHERE j.id = w.job_id
   AND j.state = 'suspended'
   AND j.run_at = w.run_at
RETURNING j.id, w.has_come;
