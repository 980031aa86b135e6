"""Twenty thousand jobs through crashes, frozen processes and a database that goes away; then an audit.

Everything is real and separate: a PostgreSQL server with a data folder of its own, four workers, two
relays and two schedulers. Producers stage jobs of every kind in transactions, some of which roll back; they know what was
committed, and when the answer to a commit was lost they read whether it took place. Meanwhile workers and
relays are killed and replaced, frozen past their leases and thawed, and the server is stopped three times
as if it had lost power. Chaos is the same for as long as is asked for: work is brought, and everything
goes wrong again, every forty seconds.

Afterwards every committed job must have ended once and well, nothing of a rolled back transaction may
exist, every effect must have happened as often as was promised, every minute must have been fired once,
and nothing may be held: no claim, no connection. Each such rule has a name; those that were broken are in the last line, which is JSON.

SOAK_SEED repeats the jobs and the moments, SOAK_JOBS says how many jobs, SOAK_SECONDS when to give up.

Reading order: `story` from top to bottom, `plan`, `producers` and `payer` bring the work, `chaos` what goes
wrong, `jobs` and `models` what is done, `facts` what is read afterwards, `audit` the rules.
"""
