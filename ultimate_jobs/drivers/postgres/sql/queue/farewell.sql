-- Remove the sign of life of a worker process that has ended: what it still held lapses with its own deadline.
DELETE FROM x_job_workers AS w
 WHERE w.id = %(worker)s::text
RETURNING w.id;
