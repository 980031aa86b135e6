-- Lead, or go on leading: the lease is taken when it is free, has run out, or is the holder's own. Also names what is
-- paused.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
taken AS (
    INSERT INTO x_scheduler_leader AS l (id, holder, since, expires_at)
    SELECT 1, %(holder)s::text, clock.now, clock.now + %(lease)s::interval
      FROM clock
        ON CONFLICT (id) DO UPDATE
       SET holder = excluded.holder,
           since = CASE WHEN l.holder = excluded.holder THEN l.since ELSE excluded.since END,
           expires_at = excluded.expires_at
     WHERE l.holder = excluded.holder
        OR l.expires_at <= excluded.since
    RETURNING l.holder
)
SELECT EXISTS (SELECT 1 FROM taken) AS granted,
       (extract(epoch FROM clock.now) * 1000000)::bigint AS now,
       ARRAY(SELECT p.name FROM x_job_pauses AS p WHERE p.kind = 'task') AS paused
  FROM clock;
