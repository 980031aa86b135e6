-- Find due jobs that no living worker can take, by queue and name: none knows the name, none serves the queue, or none
-- lives.
--
-- Queues and priorities are found by one probe each. Of a queue that is not paused the oldest due rows of each priority
-- are read, an equal share of the window each, so that no priority hides another; what stands by for a slot is not due.
WITH RECURSIVE clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
lanes AS (
    SELECT (SELECT j.queue
              FROM x_jobs AS j
             WHERE j.state IN ('delayed', 'ready', 'suspended')
               AND NOT j.blocked
             ORDER BY j.queue
             LIMIT 1) AS queue, 1 AS place
     UNION ALL
    SELECT (SELECT j.queue
              FROM x_jobs AS j
             WHERE j.state IN ('delayed', 'ready', 'suspended')
               AND NOT j.blocked
               AND j.queue > l.queue
             ORDER BY j.queue
             LIMIT 1), l.place + 1
      FROM lanes AS l
     WHERE l.queue IS NOT NULL
       AND l.place < %(most_queues)s::int
),
levels AS (
    SELECT l.queue,
           (SELECT j.priority
              FROM x_jobs AS j
             WHERE j.queue = l.queue
               AND j.state IN ('delayed', 'ready', 'suspended')
               AND NOT j.blocked
             ORDER BY j.priority DESC
             LIMIT 1) AS priority, 1 AS place
      FROM lanes AS l
     WHERE l.queue IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM x_job_pauses AS p WHERE p.kind = 'queue' AND p.name = l.queue)
     UNION ALL
    SELECT v.queue,
           (SELECT j.priority
              FROM x_jobs AS j
             WHERE j.queue = v.queue
               AND j.state IN ('delayed', 'ready', 'suspended')
               AND NOT j.blocked
               AND j.priority < v.priority
             ORDER BY j.priority DESC
             LIMIT 1), v.place + 1
      FROM levels AS v
     WHERE v.priority IS NOT NULL
       AND v.place < 1000
),
shares AS MATERIALIZED (
    SELECT v.queue, v.priority, greatest(%(window)s::int / count(*) OVER (PARTITION BY v.queue), 1) AS share
      FROM levels AS v
     WHERE v.priority IS NOT NULL
),
oldest AS MATERIALIZED (
    SELECT s.queue, s.priority, s.share, part.name, part.run_at
      FROM shares AS s
     CROSS JOIN LATERAL (
           SELECT j.name, j.run_at
             FROM x_jobs AS j
            WHERE j.queue = s.queue
              AND j.priority = s.priority
              AND j.state IN ('delayed', 'ready', 'suspended')
              AND NOT j.blocked
              AND j.run_at < (SELECT clock.now - %(patience)s::interval FROM clock)
            ORDER BY j.run_at, j.id
            LIMIT s.share
     ) AS part
),
cut AS (
    SELECT o.queue
      FROM oldest AS o
     GROUP BY o.queue, o.priority, o.share
    HAVING count(*) >= o.share
),
due AS (
    SELECT o.queue, o.name, count(*) AS jobs, min(o.run_at) AS run_at
      FROM oldest AS o
     GROUP BY o.queue, o.name
),
living AS MATERIALIZED (
    SELECT w.queues, w.jobs
      FROM x_job_workers AS w, clock
     WHERE w.expires_at > clock.now
)
SELECT d.queue, d.name, d.jobs::int AS count, d.queue IN (SELECT c.queue FROM cut AS c) AS capped,
       extract(epoch FROM clock.now - d.run_at)::float8 AS oldest_seconds,
       CASE WHEN NOT EXISTS (SELECT 1 FROM living) THEN 'no worker lives'
            WHEN NOT EXISTS (SELECT 1 FROM living AS w WHERE w.queues ? d.queue) THEN 'no worker serves its queue'
            ELSE 'no worker knows it' END AS why
  FROM due AS d
 CROSS JOIN clock
 WHERE NOT EXISTS (SELECT 1 FROM living AS w WHERE w.queues ? d.queue AND w.jobs ? d.name)
 ORDER BY d.queue, d.name;
