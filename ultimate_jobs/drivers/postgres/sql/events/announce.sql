-- Say that this transaction is about to publish, before any statement of it takes the snapshot it publishes with.
SELECT pg_advisory_xact_lock(%(publishing_lock)s::int, (pg_current_xact_id()::text::bigint %% 2147483647)::int) AS lock;
