-- Look once more at runs that have just begun to wait: an event may have been published between the last look and the
-- suspension. Where a transaction that has announced an event is still open, or too many are to tell, look again in a
-- second.
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
unsure AS MATERIALIZED (
    SELECT s.job_id,
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
      FROM x_job_steps AS s
     CROSS JOIN clock
     WHERE s.job_id = ANY (%(ids)s::uuid[])
       AND s.status = 'waiting'
)
UPDATE x_jobs AS j
   SET run_at = CASE WHEN u.has_come THEN clock.now ELSE least(j.run_at, clock.now + interval '1 second') END
  FROM unsure AS u, publishing, clock
 WHERE j.id = u.job_id
   AND j.state = 'suspended'
   AND (u.has_come OR publishing.holds)
RETURNING j.id, u.has_come;
