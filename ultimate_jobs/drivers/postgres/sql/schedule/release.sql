-- Give the lease up, if it is the holder's.
DELETE FROM x_scheduler_leader AS l
 WHERE l.holder = %(holder)s::text
RETURNING l.holder;
