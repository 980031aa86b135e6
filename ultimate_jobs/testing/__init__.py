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
should be one. ``cases`` and ``plugin`` are the ways in.

``crashes`` kills a job at every statement, ``simulation`` lets workers run into each other.
Both play on a site of virtual ``processes``, whose statements pass a ``door`` where they can be
stopped; ``strands`` are workers of which one moves at a time. ``boundaries`` is a switch.

What happens to the connection is in ``drivers/postgres/joined.py``.

The names below are imported when they are asked for: pytest loads ``plugin`` in every project, and
before Django is set up.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ultimate_jobs.testing.boundaries import every_boundary_suspends
    from ultimate_jobs.testing.cases import JobsMixin, JobsTestCase
    from ultimate_jobs.testing.clock import Clock
    from ultimate_jobs.testing.crashes import CrashReport, crash_proof
    from ultimate_jobs.testing.kit import JobsKit, jobs_kit
    from ultimate_jobs.testing.loops import EnqueueLoopWarning
    from ultimate_jobs.testing.rows import EnqueuedJob
    from ultimate_jobs.testing.simulation import SimulationReport, simulate_jobs
    from ultimate_jobs.testing.stubs import Call, EventStub, Stub
    from ultimate_jobs.testing.trace import StepTrace, Trace

_HOMES = {
    "Call": "stubs",
    "Clock": "clock",
    "CrashReport": "crashes",
    "EnqueueLoopWarning": "loops",
    "EnqueuedJob": "rows",
    "EventStub": "stubs",
    "JobsKit": "kit",
    "JobsMixin": "cases",
    "JobsTestCase": "cases",
    "SimulationReport": "simulation",
    "StepTrace": "trace",
    "Stub": "stubs",
    "Trace": "trace",
    "crash_proof": "crashes",
    "every_boundary_suspends": "boundaries",
    "jobs_kit": "kit",
    "simulate_jobs": "simulation",
}

__all__ = [
    "Call",
    "Clock",
    "CrashReport",
    "EnqueueLoopWarning",
    "EnqueuedJob",
    "EventStub",
    "JobsKit",
    "JobsMixin",
    "JobsTestCase",
    "SimulationReport",
    "StepTrace",
    "Stub",
    "Trace",
    "crash_proof",
    "every_boundary_suspends",
    "jobs_kit",
    "simulate_jobs",
]


def __getattr__(name: str) -> Any:
    """Import a name from its module."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
