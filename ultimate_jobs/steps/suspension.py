"""Control flow that leaves a body. It is no ``Exception``: a body's handlers do not see it."""

from __future__ import annotations

from ultimate_jobs.core.settlement import Parked


class ControlFlow(BaseException):
    """Leaves the body for the worker."""


class Suspended(ControlFlow):
    """The run sleeps or waits."""

    def __init__(self, parked: Parked) -> None:
        super().__init__()
        self.parked = parked


class ReplayEnded(ControlFlow):
    """A run that unwinds has registered every compensation that its forward path reached."""
