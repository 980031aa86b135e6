-- Write how attempts ended, each only while its own claim stands, and count them in the same statement.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
given AS MATERIALIZED (
    SELECT g.id, g.claim, g.state, g.counted, g.wait, g.error, g.result::jsonb AS result, g.progress::jsonb AS progress,
           g.done, g.retried, g.failed, g.dead, g.duration_ms
      FROM unnest(%(ids)s::uuid[], %(claims)s::int[], %(states)s::text[], %(counted)s::bool[], %(waits)s::interval[],
                  %(errors)s::text[], %(results)s::text[], %(progress)s::text[], %(done)s::int[], %(retried)s::int[],
                  %(failed)s::int[], %(dead)s::int[], %(duration_ms)s::bigint[])
           AS g (id, claim, state, counted, wait, error, result, progress, done, retried, failed, dead, duration_ms)
),
settled AS (
    UPDATE x_jobs AS j
       SET state = g.state,
           attempt = CASE WHEN g.counted THEN j.attempt ELSE greatest(j.attempt - 1, 0) END,
           run_at = CASE WHEN g.state IN ('ready', 'suspended') THEN clock.now + g.wait ELSE j.run_at END,
           last_error = CASE WHEN g.counted THEN g.error ELSE j.last_error END,
           result = coalesce(g.result, j.result),
           progress = coalesce(g.progress, j.progress),
           claimed_by = NULL,
           visible_at = NULL,
           updated_at = clock.now
      FROM given AS g, clock
     WHERE j.id = g.id
       AND j.claim = g.claim
       AND j.claimed_by = %(worker)s::text
       AND j.state = 'running'
    RETURNING j.id, j.name, g.claim, g.done, g.retried, g.failed, g.dead, g.duration_ms
),
counted AS (
    INSERT INTO x_job_counters AS c (bucket, name, shard, done, retried, failed, dead, duration_ms)
    SELECT date_trunc('minute', clock.now), s.name, %(shard)s::int,
           sum(s.done), sum(s.retried), sum(s.failed), sum(s.dead), sum(s.duration_ms)
      FROM settled AS s, clock
     WHERE s.done + s.retried + s.failed + s.dead > 0
     GROUP BY clock.now, s.name
     ORDER BY s.name
        ON CONFLICT (bucket, name, shard) DO UPDATE
       SET done = c.done + excluded.done,
           retried = c.retried + excluded.retried,
           failed = c.failed + excluded.failed,
           dead = c.dead + excluded.dead,
           duration_ms = c.duration_ms + excluded.duration_ms
    RETURNING c.name
)
SELECT s.id, s.claim
  FROM settled AS s;
