-- Count the rows that wait for the relay.
SELECT count(*) AS pending
  FROM x_outbox AS o
 WHERE o.published_at IS NULL;
