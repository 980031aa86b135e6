-- Pause a task, unless it is paused already.
INSERT INTO x_job_pauses AS p (kind, name, paused_at, paused_by, reason)
SELECT 'task', %(task)s::text, coalesce(%(now)s::timestamptz, statement_timestamp()), %(by)s::text, %(reason)s::text
    ON CONFLICT (kind, name) DO NOTHING
RETURNING p.name;
