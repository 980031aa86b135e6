"""What an app writes: jobs, and what their bodies are given.

A declaration is checked when its module is imported, becomes a frozen ``JobSpec`` and registers
under its durable name. ``job`` is the decorator and the handle, ``context`` what a body and an
ending hook receive, ``registry`` the one list of every job.

Reading order: ``job``, ``context``, ``registry``.
"""
