"""A small shop: an order is taken over HTTP, its checkout is a job that lasts for days.

    accept    read the order                    undone by cancelling it and putting its goods back
    charge    ask the payment gateway           undone by a refund
    reserve   goods, ledger and order in one transaction
    ship      ask the carrier
    patience  sleep
    nudge     remind the customer, unless the parcel has arrived already
    delivery  wait until the carrier says that it has

The gateway and the carrier are other processes (`testproject.partners`), reached over HTTP. Anything
can end in the middle of any of this: the payment is made once, and an order ends either delivered and
paid, or cancelled with everything given back.

Reading order: `jobs` is the checkout, `fulfilment` what it does in the database, `partners` what it asks
of others, `orders` how an order comes in and how its delivery is reported, `views` the same over HTTP.
"""
