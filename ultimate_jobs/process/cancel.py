"""Cancellation: a token that says that and why a run should stop.

A thread cannot be stopped from outside. Its body is told through the token, and what it does
through this package afterwards is refused with the reason.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ultimate_jobs.errors import Aborted, JobsError
from ultimate_jobs.process.log import event

_turn = threading.RLock()
"""Taken for the moment in which a token changes: there is one token a run, and few are ever aborted."""


class CancelToken:
    """Aborted at most once; the first reason stays."""

    __slots__ = ("_aborted", "_callbacks", "_over", "_reason")

    def __init__(self) -> None:
        self._over = False
        self._reason: JobsError | None = None
        self._aborted: threading.Event | None = None
        self._callbacks: list[Callable[[JobsError], object]] | None = None

    @property
    def aborted(self) -> bool:
        """Whether the run should stop."""
        return self._over

    @property
    def reason(self) -> JobsError | None:
        """Why; ``None`` while it goes on."""
        if not self._over:
            return None
        with _turn:
            if self._reason is None:
                self._reason = Aborted("The run was cancelled.")
            return self._reason

    def raise_if_aborted(self) -> None:
        """Raise the reason, if there is one. The check for loops."""
        if self._over:
            raise self.reason or Aborted("The run was cancelled.")

    def wait(self, seconds: float | None = None) -> bool:
        """Sleep, but not past an abort; answer whether there was one."""
        with _turn:
            if self._aborted is None:
                self._aborted = threading.Event()
                if self._over:
                    self._aborted.set()
            aborted = self._aborted
        return aborted.wait(seconds)

    def on_abort(self, callback: Callable[[JobsError], object]) -> Callable[[], None]:
        """Call ``callback(reason)`` when the token is aborted, at once if it already is.

        Runs on the aborting thread: what it raises is logged and goes no further. Answers a
        function that takes the callback back.
        """
        with _turn:
            if not self._over:
                if self._callbacks is None:
                    self._callbacks = []
                self._callbacks.append(callback)
                return lambda: self._forget(callback)
        callback(self.reason or Aborted("The run was cancelled."))
        return lambda: None

    @contextmanager
    def child(self) -> Iterator[CancelToken]:
        """Give a token, for the block, that is aborted with this one or by itself."""
        token = CancelToken()
        detach = self.on_abort(token.abort)
        try:
            yield token
        finally:
            detach()

    def abort(self, reason: JobsError | None = None) -> bool:
        """Abort with a reason; answer whether this was the first."""
        with _turn:
            if self._over:
                return False
            self._reason = reason
            self._over = True
            callbacks, self._callbacks = self._callbacks, None
            if self._aborted is not None:
                self._aborted.set()
        for callback in callbacks or ():
            _tell(callback, self.reason or Aborted("The run was cancelled."))
        return True

    def _forget(self, callback: Callable[[JobsError], object]) -> None:
        with _turn:
            if self._callbacks is not None and callback in self._callbacks:
                self._callbacks.remove(callback)


def _tell(callback: Callable[[JobsError], object], reason: JobsError) -> None:
    try:
        callback(reason)
    except BaseException as error:  # noqa: BLE001 - whoever aborts has others to tell
        event(logging.ERROR, "jobs.abort.callback-failed", error=type(error).__name__)


_current: ContextVar[CancelToken | None] = ContextVar("ultimate_jobs_cancel", default=None)


@contextmanager
def under(token: CancelToken) -> Iterator[None]:
    """Work under a token inside the block: once it is aborted, writes are refused."""
    reset = _current.set(token)
    try:
        yield
    finally:
        _current.reset(reset)


@contextmanager
def run_to_completion() -> Iterator[None]:
    """Let the block write although the run was cancelled: for work that must land."""
    reset = _current.set(None)
    try:
        yield
    finally:
        _current.reset(reset)


def enter(token: CancelToken) -> None:
    """Work under a token for the rest of the context."""
    _current.set(token)


def in_run() -> bool:
    """Answer whether a run is at work here: what it raises decides when it comes back."""
    return _current.get() is not None


def refuse_if_cancelled() -> None:
    """Raise the reason when the run at work was cancelled."""
    token = _current.get()
    if token is not None:
        token.raise_if_aborted()
