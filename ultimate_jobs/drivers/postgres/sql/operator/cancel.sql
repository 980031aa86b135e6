-- Cancel a live job; a finished one keeps its ending.
UPDATE x_jobs AS j
   SET state = 'cancelled',
       last_error = coalesce(%(reason)s::text, j.last_error),
       claimed_by = NULL,
       visible_at = NULL,
       updated_at = coalesce(%(now)s::timestamptz, statement_timestamp())
 WHERE j.id = %(job_id)s::uuid
   AND j.state IN ('delayed', 'ready', 'running', 'suspended')
RETURNING j.id;
