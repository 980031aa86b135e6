"""Jobs in PostgreSQL, over Django's own connections.

``connection`` is the one door: it runs statements on the calling thread's Django connection, so
an enqueue inside ``transaction.atomic()`` is part of that transaction. ``queue`` and ``outbox``
map statements to values. ``sql`` holds the statements.

Reading order: ``driver``, ``connection``, ``outbox``, ``queue``.
"""
