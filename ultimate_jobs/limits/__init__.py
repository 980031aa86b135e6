"""Rate limits that an app takes from.

``rate_limit`` is the declaration and the verb; ``buckets`` holds the buckets of one process. Those
of the fleet are rows, ``drivers/base.py`` says what a take guarantees, and the arithmetic of both
is ``core/bucket.py``.

A take is granted or refused at once; nothing waits here. Refused inside a run it raises
``RateLimited``, which ends the attempt uncounted, and the run comes back at its turn. When the
process dies after a take, its tokens are spent.

Reading order: ``rate_limit``, ``buckets``.
"""
