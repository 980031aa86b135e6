-- End a wait whose event has come or whose time is over, once: the earliest matching event wins over the timeout. An
-- event came after the wait began when the snapshot of that moment does not see its transaction. Snapshots mean nothing
-- in a restored database, so an event of long before is refused besides.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
ours AS MATERIALIZED (
    SELECT j.id
      FROM x_jobs AS j
     WHERE j.id = %(job_id)s::uuid
       AND j.claim = %(claim)s::int
       AND j.claimed_by = %(worker)s::text
       AND j.state = 'running'
       FOR SHARE
),
found AS MATERIALIZED (
    SELECT e.payload
      FROM x_job_steps AS s
     CROSS JOIN clock
      JOIN x_job_events AS e
        ON e.name = s.event
       AND (s.match IS NULL OR e.correlation_key = s.match)
       AND e.expires_at > clock.now
       AND e.published_at >= s.started_at - interval '1 hour'
       AND (NOT pg_visible_in_snapshot(e.xid::text::xid8, s.waited_from::pg_snapshot)
            OR e.published_at > s.started_at + interval '1 hour')
     WHERE s.run_id = %(run_id)s::uuid
       AND s.name = %(name)s::text
       AND s.status = 'waiting'
     ORDER BY e.published_at, e.id
     LIMIT 1
),
ended AS (
    UPDATE x_job_steps AS s
       SET status = 'completed',
           completed_at = clock.now,
           attempts = 1,
           waited_from = pg_current_snapshot()::text,
           output = (SELECT jsonb_build_object('payload', f.payload) FROM found AS f)
      FROM clock, ours
     WHERE s.run_id = %(run_id)s::uuid
       AND s.name = %(name)s::text
       AND s.status = 'waiting'
       AND (s.wake_at <= clock.now OR EXISTS (SELECT 1 FROM found))
    RETURNING s.output
)
SELECT (SELECT count(*) FROM ours) AS ours, (SELECT count(*) FROM ended) AS ended, (SELECT e.output FROM ended AS e) AS output;
