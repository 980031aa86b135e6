"""What the pulses of all loops mean. Pure: plain values in, a verdict and a document out.

Live means that every loop turns. A database that is down changes nothing about it: a restart would
not bring it back. Ready means that work is taken: every process is there, the database has answered
lately, and nothing is quiet or draining.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from ultimate_jobs.conf import Settings
from ultimate_jobs.process.pulse import RUNNING, Vitals

STUCK_AFTER = 180.0
"""Seconds a loop may be late before it counts as stuck; longer than the longest wait for a
connection, which is 130."""

REPORT_EVERY = 1.0
"""Seconds between two reports of a child, and between two writes of a health file."""


@dataclass(frozen=True, slots=True)
class Member:
    """One process of a worker.

    Attributes:
        name: its place, as in the log.
        pid: its process id; ``None`` while it is being replaced.
        vitals: its loops at its last report; none before the first.
        silent_seconds: since that report, or since it was started.

    """

    name: str
    pid: int | None
    vitals: Sequence[Vitals] = ()
    silent_seconds: float = 0.0

    @property
    def live(self) -> bool:
        """Whether it turns, or is being replaced."""
        late = max((one.overdue_seconds for one in self.vitals), default=0.0)
        return self.pid is None or late + self.silent_seconds <= STUCK_AFTER

    def is_ready(self, within: float) -> bool:
        """Whether it takes work, and the database answered ``within`` so many seconds."""
        return (
            self.pid is not None
            and bool(self.vitals)
            and all(self._takes_work(one, within) for one in self.vitals)
        )

    def _takes_work(self, one: Vitals, within: float) -> bool:
        if one.state != RUNNING or not one.database or one.database_seconds is None:
            return False
        return one.database_seconds + self.silent_seconds <= within


@dataclass(frozen=True, slots=True)
class Health:
    """A verdict, and the facts behind it."""

    live: bool
    ready: bool
    document: Mapping[str, object]


def judge(members: Sequence[Member], within: float) -> Health:
    """Judge the processes of one worker; see ``ready_within`` for the span."""
    live = all(member.live for member in members)
    ready = live and all(member.is_ready(within) for member in members)
    loops = [one for member in members for one in member.vitals]
    states = sorted({one.state for one in loops}) or ["starting"]
    answers = [one.database_seconds for one in loops]
    return Health(
        live,
        ready,
        {
            "live": live,
            "ready": ready,
            "state": states[0] if len(states) == 1 else "mixed",
            "in_flight": sum(one.in_flight for one in loops),
            "processed": sum(one.processed for one in loops),
            "database_seconds": _oldest(answers),
            "processes": [asdict(member) for member in members],
        },
    )


def ready_within(settings: Settings) -> float:
    """Answer the seconds since the last answer of the database within which a process is ready.

    A full worker asks nothing but for its leases; an idle one nothing but for work.
    """
    return (settings.visibility_timeout + settings.idle_poll_max).total_seconds()


def _oldest(answers: Sequence[float | None]) -> float | None:
    known = [seconds for seconds in answers if seconds is not None]
    return max(known) if known and len(known) == len(answers) else None
