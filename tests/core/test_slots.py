"""Whether a claimed run of a capped job may start."""

from __future__ import annotations

import pytest

from ultimate_jobs.core.records import SlotAnswer
from ultimate_jobs.core.slots import Placing, place
from ultimate_jobs.core.spec import WhenBusy


@pytest.mark.parametrize(
    ("answer", "when_busy", "placing"),
    [
        (SlotAnswer(1, 0, raced=False), None, Placing.START),
        (SlotAnswer(2, 1, raced=False), "fail", Placing.START),
        (SlotAnswer(None, 2, raced=False), None, Placing.STAND_BY),
        (SlotAnswer(None, 2, raced=False), "wait", Placing.STAND_BY),
        (SlotAnswer(None, 2, raced=False), "fail", Placing.REFUSE),
        (SlotAnswer(None, 1, raced=False), "wait", Placing.STAND_BY),
        (SlotAnswer(None, 1, raced=False), "fail", Placing.LATER),
        (SlotAnswer(None, 1, raced=True), "wait", Placing.LATER),
        (SlotAnswer(None, 1, raced=True), "fail", Placing.LATER),
    ],
)
def test_a_run_starts_waits_or_is_refused_on_evidence(
    answer: SlotAnswer, when_busy: WhenBusy | None, placing: Placing
) -> None:
    assert place(answer, cap=2, when_busy=when_busy) is placing
