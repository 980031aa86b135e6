"""The supervisor: forks a child for each place, replaces the dead, passes signals on.

It has one thread, no connection and no lock, so a fork at any time copies nothing that is in use.
It waits on pipes: a wakeup for signals, the reports of its children, visitors who ask for the health.
"""

from __future__ import annotations

import gc
import logging
import os
import selectors
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from ultimate_jobs.errors import JobsError
from ultimate_jobs.process.log import event
from ultimate_jobs.process.pulse import Vitals
from ultimate_jobs.process.signals import DUMP, QUIET, STOP, handling
from ultimate_jobs.supervise.health import REPORT_EVERY, Health, Member, judge
from ultimate_jobs.supervise.parent import Parent, vitals_of
from ultimate_jobs.supervise.probes import At, Doorkeeper, HealthFile, HealthServer
from ultimate_jobs.supervise.restarts import REFUSED, GiveUp, after_end

MARGIN = 10.0
"""Seconds that children get to end beyond what their bodies get, before they are killed."""

_NEVER = float("inf")
_PIPE_BYTES = 65_536
_HANDLED = (*STOP, signal.SIGQUIT, *QUIET, *DUMP, signal.SIGCHLD)


@dataclass(frozen=True, slots=True)
class Place:
    """What one child is for: its name, and its whole life, which answers an exit code."""

    name: str
    work: Callable[[Parent], int]


@dataclass(slots=True, eq=False)
class _Child:
    """A place, and the process that fills it at the moment."""

    place: Place
    pid: int | None = None
    since: float = 0.0
    due: float = 0.0
    failures: int = 0
    reports: int | None = None
    text: bytes = b""
    vitals: Sequence[Vitals] = field(default=())
    heard: float = 0.0

    def member(self) -> Member:
        silent = time.monotonic() - self.heard if self.pid is not None else 0.0
        return Member(self.place.name, self.pid, self.vitals, max(silent - REPORT_EVERY, 0.0))


class Supervisor:
    """Keeps every place filled until it is told to stop.

    Args:
        places: what to run, each in a child of its own.
        close: closes whatever must not cross a fork; called before each.
        drain_seconds: what bodies get after SIGTERM; children get a margin more.
        ready_within: seconds since the database's last answer within which a child is ready.
        health: where the health of all is shown.
        watched: can be read once the process that watches this one is gone, if one does; it passes
            signals on, so they are not counted here.

    Raises:
        ConfigInvalid: the health cannot be shown there.

    """

    def __init__(
        self,
        places: Sequence[Place],
        *,
        close: Callable[[], None],
        drain_seconds: float,
        ready_within: float,
        health: At | Path | None = None,
        watched: int | None = None,
    ) -> None:
        self._children = [_Child(place) for place in places]
        self._close = close
        self._drain_seconds = drain_seconds
        self._ready_within = ready_within
        self._watched = watched
        self._told: deque[signal.Signals] = deque()
        self._stopping = False
        self._quiet = False
        self._kill_at = _NEVER
        self._next_write = 0.0
        self._code = 0
        self._life = os.pipe()
        self._wakeup = os.pipe()
        self._selector = selectors.PollSelector()
        self._door: Doorkeeper | None = None
        self._file: HealthFile | None = None
        if isinstance(health, At):
            self._door = Doorkeeper(HealthServer(health, self.health), self._selector)
        elif health is not None:
            self._file = HealthFile(health, self.health)

    def run(self) -> int:
        """Supervise until all have ended; answer the exit code: the worst of the drain."""
        event(logging.INFO, "jobs.supervisor.started", places=len(self._children))
        gc.freeze()  # what is loaded so far stays shared between the children
        with self._listening():
            while not self._is_over():
                self._start_due()
                self._wait()
                self._react()
                self._reap()
                self._kill_late()
                self._show()
        self._leave()
        event(logging.INFO, "jobs.supervisor.stopped", code=self._code)
        return self._code

    def health(self) -> Health:
        """Judge all children by their last reports."""
        return judge([child.member() for child in self._children], self._ready_within)

    # Children

    def _start_due(self) -> None:
        now = time.monotonic()
        for child in self._children:
            if not self._stopping and child.pid is None and child.due <= now:
                self._start(child)

    def _start(self, child: _Child) -> None:
        self._close()
        theirs, ours = os.pipe()
        os.set_blocking(theirs, False)
        child.since = child.heard = time.monotonic()
        child.text, child.vitals = b"", ()
        try:
            child.pid = self._fork(child.place, theirs, ours)
        except OSError as error:  # no memory, or no room for one more process
            os.close(theirs)
            event(logging.ERROR, "jobs.supervisor.fork-failed", error=type(error).__name__)
            self._replace(child, 1)
            return
        finally:
            os.close(ours)
        child.reports = theirs
        self._selector.register(theirs, selectors.EVENT_READ, lambda: self._hear(child))
        event(logging.INFO, "jobs.supervisor.child-started", child=child.place.name, pid=child.pid)

    def _fork(self, place: Place, theirs: int, ours: int) -> int:
        """Fork; signals wait at both sides until each has its own answers to them."""
        sys.stdout.flush()
        sys.stderr.flush()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
        try:
            pid = os.fork()
            if pid == 0:
                os.close(theirs)
                self._become(place, Parent(self._life[0], ours, self._quiet))
            return pid
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _become(self, place: Place, parent: Parent) -> None:
        """Be the child, to the end: nothing of the supervisor's is left, and nothing returns."""
        code = 1
        try:
            self._forget()
            code = place.work(parent)
        except JobsError as refusal:
            sys.stderr.write(f"{place.name}: {refusal}\n")
            code = REFUSED
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        except BaseException:  # noqa: BLE001 - the end of the process, whatever it was
            traceback.print_exc()
        finally:
            logging.shutdown()
            with suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _forget(self) -> None:
        signal.set_wakeup_fd(-1)
        for number in _HANDLED:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        for descriptor in (self._life[1], *self._wakeup):
            os.close(descriptor)
        for other in self._children:
            if other.reports is not None:
                os.close(other.reports)
        if self._door is not None:
            self._door.forget()

    def _reap(self) -> None:
        """Bury every process that has ended; one that is not ours came to the first process."""
        places = {child.pid: child for child in self._children if child.pid is not None}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = places.pop(pid, None)
            if child is not None:
                self._ended(child, os.waitstatus_to_exitcode(status))

    def _ended(self, child: _Child, code: int) -> None:
        pid, child.pid = child.pid, None
        self._stop_hearing(child)
        if self._stopping:
            self._code = self._code or (1 if code else 0)
            wait = None
        else:
            wait = self._replace(child, code)
        event(
            logging.ERROR if code else logging.INFO,
            "jobs.supervisor.child-ended",
            child=child.place.name,
            pid=pid,
            code=code,
            next_start_seconds=wait,
        )

    def _replace(self, child: _Child, code: int) -> float | None:
        """Plan the next start; answer in how many seconds, or ``None`` when all end instead."""
        now = time.monotonic()
        decision = after_end(code, now - child.since, child.failures)
        if isinstance(decision, GiveUp):
            self._code = decision.code
            self._stop(signal.SIGTERM)
            return None
        child.failures = decision.failures
        child.due = now + decision.after
        return decision.after

    def _kill_late(self) -> None:
        """Kill whoever has not ended long after its bodies should have."""
        if time.monotonic() < self._kill_at:
            return
        self._kill_at = _NEVER
        self._code = self._code or 1
        self._pass_on(signal.SIGKILL)

    # Signals

    @contextmanager
    def _listening(self) -> Iterator[None]:
        for end in self._wakeup:
            os.set_blocking(end, False)
        self._selector.register(self._wakeup[0], selectors.EVENT_READ, self._wake)
        numbers: Mapping[signal.Signals, Callable[[str], None]] = dict.fromkeys(
            _HANDLED, lambda name: self._told.append(signal.Signals[name])
        )
        if self._watched is not None:
            self._selector.register(self._watched, selectors.EVENT_READ, self._outlive)
        before = signal.set_wakeup_fd(self._wakeup[1], warn_on_full_buffer=False)
        try:
            with handling(numbers):
                yield
        finally:
            signal.set_wakeup_fd(before)

    def _react(self) -> None:
        while self._told:
            number = self._told.popleft()
            if number in STOP:
                again = self._stopping and self._watched is None
                self._stop(signal.SIGQUIT if again else signal.SIGTERM)
            elif number is signal.SIGQUIT:
                self._stop(number)
            elif number in QUIET:
                self._quiet = True
                self._pass_on(signal.SIGUSR1)
            elif number in DUMP:
                self._pass_on(signal.SIGUSR2)

    def _stop(self, number: signal.Signals) -> None:
        """Have all children drain, or with SIGQUIT end at once."""
        self._stopping = True
        patience = MARGIN if number is signal.SIGQUIT else self._drain_seconds + MARGIN
        self._kill_at = min(self._kill_at, time.monotonic() + patience)
        event(logging.INFO, "jobs.supervisor.stopping", signal=number.name)
        self._pass_on(number)

    def _pass_on(self, number: signal.Signals) -> None:
        for child in self._children:
            if child.pid is not None:
                os.kill(child.pid, number)

    # Waiting

    def _is_over(self) -> bool:
        return self._stopping and all(child.pid is None for child in self._children)

    def _wait(self) -> None:
        now = time.monotonic()
        dues = [child.due for child in self._children if child.pid is None and not self._stopping]
        until = min([*dues, self._kill_at, now + REPORT_EVERY])
        for key, _ in self._selector.select(max(until - now, 0.0)):
            key.data()

    def _wake(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._wakeup[0], _PIPE_BYTES)

    def _outlive(self) -> None:
        """Drain: the process that watched this one is gone."""
        if self._watched is not None:
            self._selector.unregister(self._watched)
        self._stop(signal.SIGTERM)

    def _hear(self, child: _Child) -> None:
        """Take the last whole report of a child."""
        if child.reports is None:
            return
        with suppress(BlockingIOError):
            part = os.read(child.reports, _PIPE_BYTES)
            if not part:
                self._stop_hearing(child)
            *lines, child.text = (child.text + part).split(b"\n")
            if lines:
                child.vitals, child.heard = vitals_of(lines[-1]), time.monotonic()

    def _stop_hearing(self, child: _Child) -> None:
        if child.reports is not None:
            self._selector.unregister(child.reports)
            os.close(child.reports)
            child.reports = None

    # Health

    def _show(self) -> None:
        if self._door is not None:
            self._door.send_late_away()
        if self._file is not None and time.monotonic() >= self._next_write:
            self._next_write = time.monotonic() + REPORT_EVERY
            self._file.refresh()

    def _leave(self) -> None:
        if self._door is not None:
            self._door.close()
        if self._file is not None:
            self._file.remove()
        self._selector.close()
        for descriptor in (*self._life, *self._wakeup):
            os.close(descriptor)
