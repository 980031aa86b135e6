-- Set a row that the queue refused aside: it is tried again later, and holds nobody up meanwhile.
UPDATE x_outbox AS o
   SET refusals = o.refusals + 1,
       last_error = %(error)s::text,
       retry_at = coalesce(%(now)s::timestamptz, statement_timestamp())
                  + least(power(2, least(o.refusals, 16)), 300) * interval '1 second'
 WHERE o.id = %(id)s::uuid
   AND o.published_at IS NULL
RETURNING o.id;
