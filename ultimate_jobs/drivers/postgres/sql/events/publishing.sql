-- Answer whether a transaction that has announced an event is still open, or too many are open to tell. What was published
-- by one that has ended is seen by whatever is asked afterwards.
WITH open_transactions AS MATERIALIZED (
    SELECT listed.xid::text::bigint AS xid
      FROM pg_snapshot_xip(pg_current_snapshot()) AS listed (xid)
     UNION ALL
    SELECT newest.xid
      FROM generate_series(pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
                           pg_current_xact_id()::text::bigint - 1) AS newest (xid)
     LIMIT 201
)
SELECT (SELECT count(*) FROM open_transactions) > 200
    OR EXISTS (
    SELECT 1
      FROM open_transactions AS others
     WHERE NOT pg_try_advisory_xact_lock_shared(
                   %(publishing_lock)s::int, (others.xid %% 2147483647)::int)
) AS holds;
