"""The states of a job and the table of moves between them.

A row is *live* (it will run, or is running, and holds its idempotency key) or *terminal* (it
holds nothing). ``MOVES`` is the whole state machine: what is not in it cannot happen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from ultimate_jobs.errors import InvariantError, RowStatusUnknown


class JobState(StrEnum):
    """Where a job stands."""

    READY = "ready"
    DELAYED = "delayed"
    RUNNING = "running"
    SUSPENDED = "suspended"
    DONE = "done"
    FAILED = "failed"
    DEAD = "dead"
    CANCELLED = "cancelled"


WAITING = frozenset({JobState.READY, JobState.DELAYED, JobState.SUSPENDED})
LIVE = WAITING | {JobState.RUNNING}
TERMINAL = frozenset(JobState) - LIVE


class Verb(StrEnum):
    """What can move a row."""

    ENQUEUE = "enqueue"
    CLAIM = "claim"
    RECLAIM = "reclaim"
    BURY = "bury"
    COMPLETE = "complete"
    RETRY = "retry"
    SUSPEND = "suspend"
    HAND_BACK = "hand back"
    DEAD_LETTER = "dead-letter"
    FAIL = "fail"
    CANCEL = "cancel"
    REQUEUE = "requeue"
    PROMOTE = "promote"
    WAKE = "wake"


@dataclass(frozen=True, slots=True)
class Move:
    """One line of the table: from any of ``sources`` to any of ``targets``."""

    sources: frozenset[JobState]
    targets: frozenset[JobState]
    claim_fenced: bool = False


def _move(*sources: JobState, to: tuple[JobState, ...], claim_fenced: bool = False) -> Move:
    return Move(frozenset(sources), frozenset(to), claim_fenced)


_S = JobState
MOVES: Mapping[Verb, Move] = MappingProxyType(
    {
        Verb.ENQUEUE: _move(to=(_S.READY, _S.DELAYED)),
        Verb.CLAIM: _move(*WAITING, to=(_S.RUNNING,)),
        Verb.RECLAIM: _move(_S.RUNNING, to=(_S.RUNNING,)),
        Verb.BURY: _move(_S.RUNNING, to=(_S.DEAD, _S.FAILED)),
        Verb.COMPLETE: _move(_S.RUNNING, to=(_S.DONE,), claim_fenced=True),
        Verb.RETRY: _move(_S.RUNNING, to=(_S.READY,), claim_fenced=True),
        Verb.SUSPEND: _move(_S.RUNNING, to=(_S.SUSPENDED,), claim_fenced=True),
        Verb.HAND_BACK: _move(_S.RUNNING, to=(_S.READY,), claim_fenced=True),
        Verb.DEAD_LETTER: _move(_S.RUNNING, to=(_S.DEAD,), claim_fenced=True),
        Verb.FAIL: _move(_S.RUNNING, to=(_S.FAILED,), claim_fenced=True),
        Verb.CANCEL: _move(*LIVE, to=(_S.CANCELLED,)),
        Verb.REQUEUE: _move(*TERMINAL, to=(_S.READY,)),
        Verb.PROMOTE: _move(_S.READY, _S.DELAYED, to=(_S.READY,)),
        Verb.WAKE: _move(_S.SUSPENDED, to=(_S.SUSPENDED,)),
    }
)


def target_of(verb: Verb, source: JobState) -> JobState:
    """Answer the one state that ``verb`` moves ``source`` to.

    Raises:
        InvariantError: the table has no such move, or more than one.

    """
    move = MOVES[verb]
    if source not in move.sources or len(move.targets) != 1:
        raise InvariantError(f"The state machine has no move '{verb}' from '{source}'.")
    (target,) = move.targets
    return target


def state_of(stored: str) -> JobState:
    """Read a stored state.

    Raises:
        RowStatusUnknown: this version does not know it.

    """
    try:
        return JobState(stored)
    except ValueError:
        raise RowStatusUnknown("A job row has a state that this version does not know.") from None
