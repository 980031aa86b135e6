"""The shop's partners, a payment gateway and a carrier, in a process of their own.

They are fakes that behave like the real ones. A call names itself with an `Idempotency-Key`: it takes
effect once however often it is made, and what was undone cannot be done again. Every call is on disk
before it is answered, so the kill of whoever called hides nothing: `/charges` and `/shipments` are the
books that an audit trusts.

Some fail, by what they are asked: a card or an address is refused for good, or at its first call is
busy, or does what it was asked and never answers (see `books.CARDS` and `books.ADDRESSES`).

    python -m testproject.partners              listens where the settings look for it

Reading order: `books` decides and records, `server` is HTTP.
"""
