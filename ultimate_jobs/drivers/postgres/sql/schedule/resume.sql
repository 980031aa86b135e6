-- Let a paused task go on.
DELETE FROM x_job_pauses AS p
 WHERE p.kind = 'task'
   AND p.name = %(task)s::text
RETURNING p.name;
