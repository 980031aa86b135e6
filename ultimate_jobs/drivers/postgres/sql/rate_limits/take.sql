-- Take tokens from one bucket, refilled under the lock of its row; time only goes forward.
--
-- A bucket that is full again has kept nobody waiting, so what it promised is over. A refused caller that comes back is
-- given the turn after the last promised one. `spent` is what this take got: zero when it was refused.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
)
INSERT INTO x_rate_limit AS b (key, tokens, capacity, refill_per_second, last_at, spent, promised_until)
SELECT %(key)s::text, %(capacity)s::float8 - %(cost)s::float8, %(capacity)s::float8, %(refill_per_second)s::float8,
       clock.now, %(cost)s::float8, clock.now
  FROM clock
    ON CONFLICT (key) DO UPDATE
   SET (tokens, capacity, refill_per_second, last_at, spent, promised_until) = (
       SELECT held.tokens - verdict.spent, excluded.capacity, excluded.refill_per_second, instant.now, verdict.spent,
              CASE WHEN verdict.spent = 0 AND %(comes_back)s::bool THEN turn.at ELSE line.ends END
         FROM (SELECT greatest(b.last_at, excluded.last_at) AS now) AS instant
        CROSS JOIN LATERAL (
              SELECT least(excluded.capacity,
                           b.tokens + extract(epoch FROM instant.now - b.last_at)::float8 * excluded.refill_per_second)
                     AS tokens) AS held
        CROSS JOIN LATERAL (
              SELECT CASE WHEN held.tokens >= %(cost)s::float8 THEN %(cost)s::float8 ELSE 0 END AS spent) AS verdict
        CROSS JOIN LATERAL (
              SELECT CASE WHEN held.tokens >= excluded.capacity THEN instant.now
                          ELSE greatest(b.promised_until, instant.now) END AS ends) AS line
        CROSS JOIN LATERAL (
              SELECT least(instant.now + make_interval(secs => %(longest_wait)s::float8),
                           greatest(instant.now + make_interval(secs => greatest(
                                        (%(cost)s::float8 - held.tokens) / excluded.refill_per_second,
                                        %(least_wait)s::float8)),
                                    CASE WHEN line.ends > instant.now THEN line.ends + make_interval(
                                        secs => %(cost)s::float8 / excluded.refill_per_second) END)) AS at) AS turn)
RETURNING b.spent > 0 AS granted,
          CASE WHEN %(comes_back)s::bool THEN extract(epoch FROM b.promised_until - b.last_at)::float8
               ELSE (%(cost)s::float8 - b.tokens) / b.refill_per_second END AS wait;
