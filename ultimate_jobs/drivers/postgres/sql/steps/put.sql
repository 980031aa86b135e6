-- Write one step, only while the run's claim stands; the shared lock holds the claim until this commits. A completed
-- step never changes. It keeps the snapshot from before its function was called: a wait that follows begins there, so
-- whoever reacts to the step comes after it.
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
)
INSERT INTO x_job_steps AS s (run_id, name, job_id, position, status, output, error, attempts, undoable, started_at,
                              completed_at, waited_from)
SELECT %(run_id)s::uuid, %(name)s::text, ours.id, %(position)s::int, %(status)s::text, %(output)s::jsonb,
       %(error)s::text, %(attempts)s::int, %(undoable)s::bool, clock.now - %(took)s::interval,
       CASE WHEN %(status)s::text = 'completed' THEN clock.now END,
       coalesce(%(since)s::text, pg_current_snapshot()::text)
  FROM ours
 CROSS JOIN clock
    ON CONFLICT (run_id, name) DO UPDATE
   SET status = excluded.status,
       output = excluded.output,
       error = excluded.error,
       attempts = excluded.attempts,
       undoable = excluded.undoable,
       completed_at = excluded.completed_at,
       waited_from = excluded.waited_from
 WHERE s.status <> 'completed'
   AND s.job_id = excluded.job_id
RETURNING pg_current_snapshot()::text AS snapshot;
