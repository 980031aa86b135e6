-- Fold the oldest counters of a span into longer buckets, those that ended before an instant. The rows go in the same
-- statement, so an ending is counted in one row at every moment, however often this runs.
WITH ripe AS MATERIALIZED (
    SELECT c.id
      FROM x_job_counters AS c
     WHERE c.span = %(span)s::int
       AND c.bucket < date_bin(make_interval(mins => %(into)s::int), %(before)s::timestamptz, 'epoch'::timestamptz)
     ORDER BY c.bucket
     LIMIT %(limit)s::int
       FOR UPDATE SKIP LOCKED
),
taken AS (
    DELETE FROM x_job_counters AS c
     USING ripe AS r
     WHERE c.id = r.id
    RETURNING c.bucket, c.name, c.done, c.retried, c.failed, c.dead, c.duration_ms
),
folded AS (
    INSERT INTO x_job_counters AS c (span, bucket, name, shard, done, retried, failed, dead, duration_ms)
    SELECT %(into)s::int, longer.bucket, t.name, 0,
           sum(t.done), sum(t.retried), sum(t.failed), sum(t.dead), sum(t.duration_ms)
      FROM taken AS t
     CROSS JOIN LATERAL (
           SELECT date_bin(make_interval(mins => %(into)s::int), t.bucket, 'epoch'::timestamptz) AS bucket
     ) AS longer
     GROUP BY longer.bucket, t.name
     ORDER BY longer.bucket, t.name
        ON CONFLICT (span, bucket, name, shard) DO UPDATE
       SET done = c.done + excluded.done,
           retried = c.retried + excluded.retried,
           failed = c.failed + excluded.failed,
           dead = c.dead + excluded.dead,
           duration_ms = c.duration_ms + excluded.duration_ms
    RETURNING c.name
)
SELECT count(*) AS taken
  FROM taken;
