"""The scheduler: fires what tasks have due, once, whoever leads.

Any number of schedulers may run. One holds the lease and dispatches; the others stand by, and one
of them takes over when the lease runs out. The lease only saves work. What keeps an occurrence from
being fired twice is the task's watermark, which moves in the statement that queues the jobs and
only if it still is what this scheduler had read (``sql/schedule/fire.sql``).

While nothing is due no row is read: watermarks and next occurrences are kept in memory, and time is
the database's clock, as it was answered with the lease, carried on by the monotonic clock.

``leadership`` holds the lease and the clock, ``agenda`` what is due and when, ``dispatcher`` turns
that into fires and keeps an error with its task, ``loop`` is the process.
"""
