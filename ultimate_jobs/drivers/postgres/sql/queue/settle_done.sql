-- Write how attempts ended, of which every one is done and leaves nothing but a result: what `queue/settle.sql` does, with
-- a quarter of what is sent and of what is to be thought about. State and holder are compared as a pair: so rows are found
-- by their ids, however many the worker holds.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
settled AS (
    UPDATE x_jobs AS j
       SET state = 'done',
           last_error = NULL,
           result = coalesce(g.result, %(result)s::text)::jsonb,
           claimed_by = NULL,
           visible_at = NULL,
           updated_at = clock.now
      FROM unnest(%(ids)s::uuid[], %(claims)s::int[], %(results)s::text[], %(duration_ms)s::bigint[])
           AS g (id, claim, result, duration_ms),
           clock
     WHERE j.id = g.id
       AND j.claim = g.claim
       AND ARRAY[j.state, j.claimed_by] = ARRAY['running', %(worker)s::text]
    RETURNING j.id, j.claim, j.name, g.duration_ms
),
counted AS (
    INSERT INTO x_job_counters AS c (span, bucket, name, shard, done, retried, failed, dead, duration_ms)
    SELECT 1, date_trunc('minute', clock.now), s.name, %(shard)s::int, count(*), 0, 0, 0, sum(s.duration_ms)
      FROM settled AS s, clock
     GROUP BY clock.now, s.name
     ORDER BY s.name
        ON CONFLICT (span, bucket, name, shard) DO UPDATE
       SET done = c.done + excluded.done,
           duration_ms = c.duration_ms + excluded.duration_ms
    RETURNING c.name
)
SELECT s.id, s.claim
  FROM settled AS s;
