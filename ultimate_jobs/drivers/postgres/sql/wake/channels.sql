-- Name the channels on which work in these tables is told of: two processes share them when they share the tables.
SELECT 'ultimate_jobs_' || 'x_jobs'::regclass::oid::text AS jobs,
       'ultimate_jobs_' || 'x_outbox'::regclass::oid::text AS outbox,
       'ultimate_jobs_results_' || 'x_jobs'::regclass::oid::text AS results;
