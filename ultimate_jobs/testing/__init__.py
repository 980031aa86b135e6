"""The test kit: jobs run inside a test, on its own connection, by a clock that it moves.

    class CheckoutTest(JobsTestCase):
        def test_a_customer_is_nudged_after_three_days(self) -> None:
            trace = self.jobs.run_jobs(checkout, Checkout(order_id=7))
            self.jobs.clock.advance("3d")
            self.jobs.run_jobs()
            self.assertEqual(trace.steps["nudge"].executions, 1)

With pytest the same is the fixture ``jobs``.

Nothing is imitated: rows are staged, relayed, claimed, run and settled by the statements and the
parts of real workers. What a test does not have is threads, timers and a time that moves by itself.

Reading order: ``kit`` is what a test calls. ``rounds`` relays and runs until nothing is due, through
``inline``, a worker whose moves are made one at a time. ``clock`` is the time; ``timetable`` fires
tasks as it passes. ``watch`` counts executions and keeps what bodies raised, ``trace`` tells it,
``rows`` reads the rest. ``stubs`` stand for the world outside, ``loops`` warns of enqueues that
should be one. ``cases`` and ``plugin`` are the ways in. What happens to the connection is in
``drivers/postgres/joined.py``.

The names below are imported when they are asked for: pytest loads ``plugin`` in every project, and
before Django is set up.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ultimate_jobs.testing.cases import JobsMixin, JobsTestCase
    from ultimate_jobs.testing.clock import Clock
    from ultimate_jobs.testing.kit import JobsKit, jobs_kit
    from ultimate_jobs.testing.loops import EnqueueLoopWarning
    from ultimate_jobs.testing.rows import EnqueuedJob
    from ultimate_jobs.testing.stubs import Call, EventStub, Stub
    from ultimate_jobs.testing.trace import StepTrace, Trace

_HOMES = {
    "Call": "stubs",
    "Clock": "clock",
    "EnqueueLoopWarning": "loops",
    "EnqueuedJob": "rows",
    "EventStub": "stubs",
    "JobsKit": "kit",
    "JobsMixin": "cases",
    "JobsTestCase": "cases",
    "StepTrace": "trace",
    "Stub": "stubs",
    "Trace": "trace",
    "jobs_kit": "kit",
}

__all__ = [
    "Call",
    "Clock",
    "EnqueueLoopWarning",
    "EnqueuedJob",
    "EventStub",
    "JobsKit",
    "JobsMixin",
    "JobsTestCase",
    "StepTrace",
    "Stub",
    "Trace",
    "jobs_kit",
]


def __getattr__(name: str) -> Any:
    """Import a name from its module."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
