"""Whether a claimed run of a capped job may start."""

from __future__ import annotations

from enum import Enum, auto

from ultimate_jobs.core.records import SlotAnswer
from ultimate_jobs.core.spec import WhenBusy


class Placing(Enum):
    """What becomes of a claimed run that asked for a slot."""

    START = auto()
    REFUSE = auto()
    STAND_BY = auto()
    LATER = auto()


def place(answer: SlotAnswer, *, cap: int, when_busy: WhenBusy | None) -> Placing:
    """Decide by what the request for a slot met.

    A run is refused only on evidence: other runs hold as many slots as there are. A slot that an
    earlier claim of the same run left behind makes it come again later, and so does a race.
    """
    if answer.number is not None:
        return Placing.START
    if answer.others >= cap:
        return Placing.REFUSE if when_busy == "fail" else Placing.STAND_BY
    if answer.raced or when_busy == "fail":
        return Placing.LATER
    return Placing.STAND_BY
