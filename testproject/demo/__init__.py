"""A thousand orders over HTTP, workers killed on the way, and everybody's books afterwards.

Everything is real and separate: PostgreSQL, a threaded web server, the relay, two workers and the
shop's partners (`testproject.partners`, a payment gateway and a carrier) are processes of their own, on
a database of their own. One order in ten is refused after its checkout was enqueued, so a tenth of all
transactions roll back. Some cards are declined and some addresses refused for good, some calls fail at
first. The carrier reports each parcel's arrival, now and then before anybody waits for it.

At a few random moments a worker is stopped, seen to hold running jobs, killed and replaced. Then the
shop's books and those of the partners must agree that each committed order was either delivered and
paid once, or cancelled with everything given back, and that nothing was done for any other one.
DEMO_SEED repeats the orders and the moments.

Reading order: `show` tells the story, `processes` has the actors, `traffic` the customers, `carrier` who
brings the parcels, `database` the place, `audit` the verdict, `screen` what you see.
"""
