-- Look once more at runs that have just begun to wait: an event may have been published between the last look and the
-- suspension. Where a transaction that has announced an event is still open, or too many are to tell, look again in a
-- second. Otherwise let the run rest until its poll. A row that somebody has moved since this statement began stays as
-- it is.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
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
publishing AS MATERIALIZED (
    SELECT (SELECT count(*) FROM open_transactions) > 200
        OR EXISTS (
        SELECT 1
          FROM open_transactions AS others
         WHERE NOT pg_try_advisory_xact_lock_shared(
                       %(publishing_lock)s::int, (others.xid %% 2147483647)::int)
    ) AS holds
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
           WHEN publishing.holds THEN least(w.wake_at, clock.now + interval '1 second')
           ELSE least(w.wake_at, clock.now + w.poll)
       END
  FROM waiting AS w, publishing, clock
 WHERE j.id = w.job_id
   AND j.state = 'suspended'
   AND j.run_at = w.run_at
RETURNING j.id, w.has_come;
