-- Count what workers could be busy with in each queue: what is due and may be claimed, and what runs.
--
-- A paused queue has nothing that may be claimed. Queues and priorities are found by one probe each, so rows due later cost
-- nothing; no count reads more rows than the cap.
WITH RECURSIVE lanes AS (
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
due AS (
    SELECT v.queue, least(sum(counted.rows), %(cap)s::int) AS rows
      FROM levels AS v
     CROSS JOIN LATERAL (
           SELECT count(*) AS rows
             FROM (SELECT j.id
                     FROM x_jobs AS j
                    WHERE j.queue = v.queue
                      AND j.priority = v.priority
                      AND j.state IN ('delayed', 'ready', 'suspended')
                      AND NOT j.blocked
                      AND j.run_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
                    LIMIT (SELECT %(cap)s::int)) AS part
     ) AS counted
     WHERE v.priority IS NOT NULL
     GROUP BY v.queue
),
running AS (
    SELECT part.queue, count(*) AS rows
      FROM (SELECT j.queue
              FROM x_jobs AS j
             WHERE j.state = 'running'
             LIMIT (SELECT %(cap)s::int)) AS part
     GROUP BY part.queue
)
SELECT coalesce(d.queue, r.queue) AS queue,
       (coalesce(d.rows, 0) + coalesce(r.rows, 0))::int AS demand
  FROM due AS d
  FULL JOIN running AS r ON r.queue = d.queue
 WHERE coalesce(d.rows, 0) + coalesce(r.rows, 0) > 0
 ORDER BY queue;
