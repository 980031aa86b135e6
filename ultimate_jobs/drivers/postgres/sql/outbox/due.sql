-- Name the rows that the next pass would take.
SELECT o.id, o.name
  FROM x_outbox AS o
 WHERE o.published_at IS NULL
   AND (o.retry_at IS NULL OR o.retry_at <= coalesce(%(now)s::timestamptz, statement_timestamp()))
 ORDER BY o.staged_at, o.id
 LIMIT %(limit)s::int;
