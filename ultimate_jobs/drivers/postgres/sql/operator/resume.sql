-- Resume what was paused.
DELETE FROM x_job_pauses AS p
 WHERE p.kind = %(kind)s::text
   AND p.name = %(name)s::text
RETURNING p.name;
