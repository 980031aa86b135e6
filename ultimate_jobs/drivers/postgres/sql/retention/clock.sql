-- Answer the instant that a whole pass of retention goes by.
SELECT (extract(epoch FROM coalesce(%(now)s::timestamptz, statement_timestamp())) * 1000000)::bigint AS now;
