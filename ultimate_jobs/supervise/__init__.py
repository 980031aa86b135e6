"""The processes of a worker: one, or several under a supervisor, and what they tell an orchestrator.

Reading order: ``serving`` is what one process does; ``supervisor`` forks several of them and
replaces the dead, as ``restarts`` decides; ``parent`` is what a child sees of it. ``recycling``
says when a process has worked enough, ``health`` judges what the loops' pulses say and shows it,
``reloading`` starts a process again when its code changes. ``roles`` lists what can run beside.
"""
