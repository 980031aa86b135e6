-- Pause a queue or a task; one that is paused already keeps who paused it first, and why.
INSERT INTO x_job_pauses (kind, name, paused_at, paused_by, reason)
VALUES (%(kind)s::text, %(name)s::text, coalesce(%(now)s::timestamptz, statement_timestamp()), %(by)s::text,
        %(reason)s::text)
    ON CONFLICT (kind, name) DO NOTHING
RETURNING name;
