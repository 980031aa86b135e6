"""The way in.

``facade`` is the one enqueue: every handle method ends there. It refuses what it must
(``record``), then stages in the caller's transaction or publishes at once. ``relay`` moves what
was staged. ``occurrence`` makes rows of what a task has due; the scheduler writes them.

An enqueue inside ``transaction.atomic()`` is a row in that transaction: rolled back, the job never
existed; committed, it will run. There is no second write after the commit and nothing to call
back. When a relay dies, its transaction is rolled back and the rows wait for the next pass.

Reading order: ``facade``, ``record``, ``relay``, ``occurrence``.
"""
