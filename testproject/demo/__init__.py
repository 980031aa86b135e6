"""A thousand orders over HTTP, a worker killed on the way, and the books afterwards.

Everything is real and separate: PostgreSQL, a threaded web server, the relay and two workers are
processes of their own, on a database of their own. One order in ten is refused after its checkout was
enqueued, so a tenth of all transactions roll back. When a third of the checkouts is done, one worker
is stopped, seen to hold running jobs, killed and replaced. Then the books must say that each committed
order was charged once and no other one ever.

Reading order: `show` tells the story, `processes` has the actors, `traffic` the customers, `database`
the place, `audit` the verdict, `screen` what you see.
"""
