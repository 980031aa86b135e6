-- Send a token over every channel, the way that word of work takes.
SELECT pg_notify('ultimate_jobs_' || 'x_jobs'::regclass::oid::text, %(token)s::text) AS jobs,
       pg_notify('ultimate_jobs_' || 'x_outbox'::regclass::oid::text, %(token)s::text) AS outbox,
       pg_notify('ultimate_jobs_results_' || 'x_jobs'::regclass::oid::text, %(token)s::text) AS results;
