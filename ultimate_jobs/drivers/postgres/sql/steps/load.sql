-- Read the steps of a run, in the order it reached them; sleeps that are over are completed on the way.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
woken AS (
    UPDATE x_job_steps AS s
       SET status = 'completed', completed_at = clock.now, waited_from = pg_current_snapshot()::text
      FROM clock
     WHERE s.run_id = %(run_id)s::uuid
       AND s.job_id = %(job_id)s::uuid
       AND s.status = 'sleeping'
       AND s.wake_at <= clock.now
       AND EXISTS (
           SELECT 1
             FROM x_jobs AS j
            WHERE j.id = %(job_id)s::uuid
              AND j.claim = %(claim)s::int
              AND j.claimed_by = %(worker)s::text
              AND j.state = 'running')
    RETURNING s.name
)
SELECT s.name, s.position, CASE WHEN w.name IS NULL THEN s.status ELSE 'completed' END AS status,
       s.output, s.error, s.attempts, s.wake_at, coalesce(s.wake_at <= clock.now, FALSE) AS due, s.undoable,
       pg_current_snapshot()::text AS snapshot
  FROM clock
  LEFT JOIN x_job_steps AS s
    ON s.run_id = %(run_id)s::uuid
   AND s.job_id = %(job_id)s::uuid
  LEFT JOIN woken AS w ON w.name = s.name
 ORDER BY s.position;
