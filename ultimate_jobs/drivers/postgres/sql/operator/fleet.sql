-- Say who works and what is scheduled, a row each: the clock, the scheduler that leads, the tasks that have rows, the
-- worker processes by their last sign of life. Without names of tasks nothing is said of the schedule; the tasks that
-- are named come before others.
WITH clock AS (
    SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now
),
named AS MATERIALIZED (
    SELECT n.name
      FROM (
           SELECT s.name
             FROM x_scheduler_state AS s
            UNION
           SELECT p.name
             FROM x_job_pauses AS p
            WHERE p.kind = 'task'
           ) AS n
     WHERE %(tasks)s::text[] IS NOT NULL
     ORDER BY n.name = ANY (%(tasks)s::text[]) DESC, n.name
     LIMIT %(most_tasks)s::int
),
workers AS MATERIALIZED (
    SELECT w.id, w.host, w.pid, w.state, w.queues, w.concurrency, w.running, w.started_at, w.beat_at, w.expires_at
      FROM x_job_workers AS w
     ORDER BY w.beat_at DESC, w.id
     LIMIT %(most_workers)s::int
)
SELECT 'clock' AS kind, 0::bigint AS place, to_jsonb(c.now)::text AS document
  FROM clock AS c
 UNION ALL
SELECT 'leader', 0, jsonb_build_object('holder', l.holder, 'since', l.since, 'expires_at', l.expires_at)::text
  FROM clock AS c
  JOIN x_scheduler_leader AS l ON l.expires_at > c.now
 WHERE %(tasks)s::text[] IS NOT NULL
 UNION ALL
SELECT 'task', row_number() OVER (ORDER BY n.name),
       jsonb_build_object('name', n.name, 'rule', s.rule, 'last_fired', s.last_fired, 'fired_at', s.fired_at,
                          'paused_at', p.paused_at, 'paused_by', p.paused_by, 'pause_reason', p.reason)::text
  FROM named AS n
  LEFT JOIN x_scheduler_state AS s ON s.name = n.name
  LEFT JOIN x_job_pauses AS p ON p.kind = 'task' AND p.name = n.name
 UNION ALL
SELECT 'worker', row_number() OVER (ORDER BY w.beat_at DESC, w.id),
       jsonb_build_object('id', w.id, 'host', w.host, 'pid', w.pid, 'state', w.state, 'queues', w.queues,
                          'concurrency', w.concurrency, 'running', w.running, 'alive', w.expires_at > c.now,
                          'started_at', w.started_at, 'beat_at', w.beat_at, 'expires_at', w.expires_at)::text
  FROM clock AS c
 CROSS JOIN workers AS w
 ORDER BY kind, place;
