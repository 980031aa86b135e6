"""What an app writes: jobs and what their bodies are given, and tasks that enqueue them.

A declaration is checked when its module is imported, becomes a frozen ``JobSpec`` and registers
under its durable name. ``job`` is the decorator and the handle, ``context`` what a body and an
ending hook receive, ``task`` a schedule that enqueues jobs, ``registry`` the lists of all jobs and
of all tasks.

Reading order: ``job``, ``context``, ``task``, ``registry``.
"""
