-- Answer the instant that a whole pass of retention goes by.
SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now;
