-- Send words to everybody who listens for results.
SELECT pg_notify('ultimate_jobs_results_' || 'x_jobs'::regclass::oid::text, w.word) AS sent
  FROM unnest(%(words)s::text[]) AS w (word);
