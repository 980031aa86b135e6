-- Say how an at-most-once step ended that nobody else can know about: it ran, with this output, or it did not run.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
resting AS MATERIALIZED (
    SELECT j.id, j.run_id
      FROM x_jobs AS j
     WHERE j.id = %(job_id)s::uuid
       AND j.state <> 'running'
       FOR UPDATE
),
ran AS (
    UPDATE x_job_steps AS s
       SET status = 'completed', output = %(output)s::jsonb, error = NULL, completed_at = clock.now
      FROM resting AS r, clock
     WHERE %(ran)s::bool
       AND s.run_id = r.run_id
       AND s.name = %(name)s::text
       AND s.status IN ('started', 'failed')
    RETURNING s.name
),
not_ran AS (
    DELETE FROM x_job_steps AS s
     USING resting AS r
     WHERE NOT %(ran)s::bool
       AND s.run_id = r.run_id
       AND s.name = %(name)s::text
       AND s.status IN ('started', 'failed')
    RETURNING s.name
)
SELECT (SELECT count(*) FROM resting) AS resting, (SELECT count(*) FROM ran) + (SELECT count(*) FROM not_ran) AS resolved;
