"""Jobs in the memory of this process, for tests: nothing survives it.

A statement of the PostgreSQL driver is a function over a ``Statement`` here: it runs alone, under one
lock, and all of what it wrote counts, or nothing of it. ``store`` keeps what open transactions wrote
apart from what is committed, and lets whoever needs the same row or key wait for their end.
``following`` makes Django's own transactions those of the store.

Relays, schedulers and workers of this process may use it, on any number of threads. No process of
their own may: the commands refuse to start over it, since nobody else sees its rows, and a job that
was drained into it would be lost with it.

Reading order: ``driver``, ``rows``, ``tables``, ``store``, ``following``, ``queue``, ``outbox``.
"""

from __future__ import annotations

from ultimate_jobs.drivers.memory.driver import MemoryDriver

__all__ = ["MemoryDriver"]
