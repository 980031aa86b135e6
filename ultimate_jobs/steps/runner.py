"""Steps of one attempt: replay what is stored, run what is not, store before answering."""

from __future__ import annotations

import inspect
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import FunctionType
from typing import Any, ClassVar, TypeVar

from msgspec.structs import replace

from ultimate_jobs.core.failure import describe
from ultimate_jobs.core.jsonform import JSONValue, NotStorable, canonical, dumps, loads
from ultimate_jobs.core.records import Fence, ParkedStep, StepWrite
from ultimate_jobs.core.replay import (
    UNWINDING,
    Go,
    Replay,
    StepRecord,
    StepStatus,
    Unknown,
    Wait,
    checked_label,
    checked_step_name,
    decide_step,
)
from ultimate_jobs.core.retry import Retry, classify, retry_after
from ultimate_jobs.core.schema import Schema
from ultimate_jobs.core.settlement import Parked
from ultimate_jobs.core.spec import JobSpec
from ultimate_jobs.drivers.base import ClaimGone, Steps as StepStore, Unreachable
from ultimate_jobs.errors import (
    Aborted,
    CompensationFailed,
    DeclarationInvalid,
    Draining,
    DriverUnavailable,
    EventInvalid,
    InputInvalid,
    LeaseLost,
    RateLimited,
    StepDuplicate,
    StepFailed,
    StepInTransaction,
    StepNested,
    StepOutcomeUnknown,
    StepOutputUnserializable,
)
from ultimate_jobs.process.cancel import CancelToken, run_to_completion
from ultimate_jobs.process.log import event
from ultimate_jobs.steps.suspension import ControlFlow, ReplayEnded, Suspended

T = TypeVar("T")
Compensate = Callable[..., object]
_inside: ContextVar[str | None] = ContextVar("ultimate_jobs_step", default=None)


@dataclass(frozen=True, slots=True)
class Compensation:
    """What undoes a step that is done."""

    step: str
    output: JSONValue
    undo: Compensate


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A step that is to run now."""

    name: str
    position: int
    attempts: int
    once: bool
    compensate: Compensate | None
    retry: Retry | None
    began: float


@dataclass(frozen=True, slots=True)
class Answered:
    """A step that is done already."""

    output: JSONValue


class StepRunner:
    """The steps of one attempt of one run.

    Args:
        store: where steps are kept.
        fence: the claim of this attempt.
        token: aborted when the attempt should stop.
        spec: the job's declaration.
        fresh: whether no earlier claim can have stored a step.
        since: the database's snapshot of the claim: what a first step provokes comes after it.
        unwinding: whether the run undoes itself: the body replays, and nothing new runs.

    """

    suspends_everywhere: ClassVar[bool] = False
    """Whether a run is suspended after every step that it has stored; for tests of replays."""

    def __init__(
        self,
        store: StepStore,
        fence: Fence,
        token: CancelToken,
        spec: JobSpec,
        *,
        fresh: bool,
        since: str | None = None,
        unwinding: bool = False,
    ) -> None:
        self.compensations: list[Compensation] = []
        self.left: ControlFlow | None = None
        self.in_doubt: str | None = None
        self.refused = False
        self._store = store
        self._fence = fence
        self._token = token
        self._spec = spec
        self._unwinding = unwinding
        self._records: dict[str, StepRecord] | None = {} if fresh else None
        self._since = since
        self._position = 0
        self._seen: set[str] = set()
        self._lock = threading.Lock()
        self._depth = store.transaction_depth()
        self._sleeps: dict[str, int] = {}

    @property
    def fence(self) -> Fence:
        """The claim of this attempt."""
        return self._fence

    # The records

    def record(self, name: str) -> StepRecord | None:
        """Answer what is stored under a name; the first question reads every step of the run."""
        return self._stored().get(name)

    def put(self, write: StepWrite) -> None:
        """Store a step.

        Raises:
            LeaseLost: the claim is gone; nothing was stored.

        """
        if not self._kept(write):
            raise self._lost()

    def open_internal(self, name: str) -> Opened:
        """Open a step of the unwind: its name is reserved and its order is the unwind's."""
        record = self.record(name)
        return Opened(
            name=name,
            position=self._place(record),
            attempts=record.attempts if record else 0,
            once=False,
            compensate=None,
            retry=None,
            began=time.monotonic(),
        )

    def forgotten(self) -> list[str]:
        """Name the steps that have something to undo and that this attempt has not reached."""
        registered = {compensation.step for compensation in self.compensations}
        return [
            record.name
            for record in self._stored().values()
            if record.undoable
            and record.status is StepStatus.COMPLETED
            and record.name not in registered
        ]

    # Steps that run a function

    def run(
        self,
        name: str,
        *,
        once: bool,
        compensate: Compensate | None,
        retry: Retry | None,
        call: Callable[[], object],
    ) -> JSONValue:
        """Run a step to its stored output; ``call`` calls the function."""
        opened = self.open(name, once=once, compensate=compensate, retry=retry)
        if isinstance(opened, Answered):
            return opened.output
        try:
            with inside(name):
                value = call()
        except Exception as error:
            self.failed(opened, error)
            raise
        return self.finish(opened, value)

    def atomic(self, name: str, function: Callable[[], object]) -> JSONValue:
        """Run a function and store its output in one transaction, behind the fence."""
        opened = self.open(name, once=False, compensate=None, retry=None)
        if isinstance(opened, Answered):
            return opened.output

        def work() -> JSONValue:
            with inside(name):
                value = function()
            answer = self.completed(opened, value)
            landing.enter_context(run_to_completion())  # what is recorded also commits
            return answer

        try:
            with ExitStack() as landing:
                answer = self._store.transact(work)
        except Exception as error:
            self.failed(opened, error)
            raise
        self._passed_boundary()
        return answer

    def open(
        self,
        name: str,
        *,
        once: bool,
        compensate: Compensate | None,
        retry: Retry | None,
    ) -> Opened | Answered:
        """Decide what a step does, and note that an at-most-once step begins."""
        if compensate is not None and not self._spec.compensates:
            raise DeclarationInvalid(
                f"'{self._spec.name}' has a step with compensate= and does not declare "
                "compensates=True."
            )
        self._enter(name)
        record = self.record(name)
        decision = decide_step(record, once=once)
        match decision:
            case Replay(output):
                return Answered(self._register(name, _loaded(output), compensate))
            case Unknown():
                self.in_doubt = name if compensate is not None else None
                raise StepOutcomeUnknown(
                    f"The step '{name}' began in an earlier attempt and never said how it ended."
                )
            case Wait():
                raise DeclarationInvalid(f"The step '{name}' was a wait in an earlier attempt.")
            case Go():
                self._refuse_new(record)
        opened = Opened(
            name=name,
            position=self._place(record),
            attempts=decision.attempts,
            once=once,
            compensate=compensate,
            retry=retry,
            began=time.monotonic(),
        )
        if once:
            self.put(self._write(opened, StepStatus.STARTED))
            self.in_doubt = name if compensate is not None else None
        return opened

    def finish(self, opened: Opened, value: object) -> JSONValue:
        """Store a step's output; one without a stored form fails the step that has taken effect.

        What it did cannot be undone then, since nobody can say what it was: an unwind halts at it.
        """
        try:
            answer = self.completed(opened, value)
        except StepOutputUnserializable as error:
            if opened.compensate is not None:
                self.in_doubt = opened.name
            self.failed(opened, error)
            raise
        self._passed_boundary()
        return answer

    def completed(self, opened: Opened, value: object) -> JSONValue:
        """Store a step's output, and answer it in its stored form."""
        try:
            output = canonical(value)
        except NotStorable as error:
            raise StepOutputUnserializable(
                f"The step '{opened.name}' returned what has no JSON form: {error}"
            ) from None
        drained = isinstance(self._token.reason, Draining)
        if self._token.aborted and not drained:
            raise Aborted(f"The run was cancelled while the step '{opened.name}' ran.")
        # A step that finished while its worker drains is recorded, once, if the claim stands.
        with run_to_completion() if drained else nullcontext():
            self.put(self._write(opened, StepStatus.COMPLETED, output=dumps(output)))
        if self.in_doubt == opened.name:
            self.in_doubt = None
        return self._register(opened.name, output, opened.compensate)

    def failed(self, opened: Opened, error: Exception) -> None:
        """Store that a step failed, unless the attempt is cancelled; suspend if it is to be retried.

        One that was refused by a rate limit has not been tried: nothing is stored, and the run waits.

        Raises:
            Suspended: the step's own policy has attempts left, and the error is not terminal.

        """
        if opened.once and opened.compensate is not None:
            self.in_doubt = opened.name
        if self._token.aborted or isinstance(error, LeaseLost):
            return
        if isinstance(error, RateLimited) and not opened.once:
            return
        write = self._write(opened, StepStatus.FAILED, error=describe(error))
        if not self._kept(write):
            return
        policy, kind = opened.retry, classify(error)
        if policy is None or opened.once or kind == "terminal":
            return
        if write.attempts < policy.attempts:
            asked = retry_after(error) if kind == "retry-after" else None
            wait = policy.wait_after(write.attempts, random.random())  # noqa: S311, TID251 - jitter
            parked = Parked(wait=wait if asked is None else min(asked, policy.longest))
            raise self._leave(Suspended(parked)) from error

    # Sleeps and waits

    def sleep(self, name: str | None, label: str, parked: Parked) -> None:
        """Suspend until a sleep is over; without a name it is called after its length."""
        if name is None:
            name = self._numbered(f"sleep:{label}")
        self._enter(name)
        record = self.record(name)
        match decide_step(record, once=False):
            case Replay():
                return
            case Wait(wake_at) if record is not None:
                raise self._leave(Suspended(Parked(until=wake_at)))
            case _:
                self._refuse_other_kind(name, record)
        self._refuse_new()
        step = ParkedStep(name=name, position=self._place(record), status=StepStatus.SLEEPING)
        raise self._leave(Suspended(Parked(wait=parked.wait, until=parked.until, step=step)))

    def wait(
        self, name: str, topic: str, schema: Schema[Any], match: str | None, timeout: timedelta
    ) -> Any:
        """Suspend until a matching event or the timeout; answer the payload, or ``None``."""
        checked_label("event", topic)
        if match is not None:
            checked_label("match", match)
        self._enter(name)
        record = self.record(name)
        poll = self._spec.event_poll
        match decide_step(record, once=False):
            case Replay(output):
                return _payload(schema, name, output)
            case Wait(wake_at):
                return self._ended_wait(schema, name, wake_at, poll)
            case _:
                self._refuse_other_kind(name, record)
        self._refuse_new()
        step = ParkedStep(
            name=name,
            position=self._place(record),
            status=StepStatus.WAITING,
            event=topic,
            match=match,
        )
        raise self._leave(Suspended(Parked(wait=timeout, poll=poll, step=step)))

    def _ended_wait(
        self, schema: Schema[Any], name: str, wake_at: datetime | None, poll: timedelta
    ) -> Any:
        self._refuse_aborted()
        try:
            ended = self._asked(lambda: self._store.settle_wait(self._fence, name))
        except ClaimGone:
            raise self._lost() from None
        if ended is None:
            raise self._leave(Suspended(Parked(until=wake_at, poll=poll)))
        if ended.output is None:
            event(logging.WARNING, "jobs.step.wait-timeout", id=self._fence.job_id, step=name)
        self._passed_boundary()
        return _payload(schema, name, ended.output)

    # What all have in common

    def _stored(self) -> dict[str, StepRecord]:
        if self._records is None:
            found, self._since = self._asked(lambda: self._store.load(self._fence))
            self._records = {r.name: r for r in found}
            self._position = max((r.position for r in found), default=-1) + 1
            if UNWINDING in self._records and not self._spec.compensates:
                raise CompensationFailed(
                    f"The run unwinds, and '{self._spec.name}' does not declare compensates=True."
                )
        return self._records

    def _enter(self, name: str) -> None:
        if self.left is not None:
            raise self.left
        checked_step_name(name)
        if _inside.get() is not None:
            raise StepNested(f"The step '{name}' is called inside the step '{_inside.get()}'.")
        if self._store.transaction_depth() > self._depth:
            raise StepInTransaction(f"The step '{name}' is called inside transaction.atomic().")
        with self._lock:
            if name in self._seen:
                raise StepDuplicate(f"The step '{name}' is called twice in one run.")
            self._seen.add(name)

    def _refuse_other_kind(self, name: str, record: StepRecord | None) -> None:
        if record is not None:
            raise DeclarationInvalid(f"The step '{name}' ran a function in an earlier attempt.")

    def _refuse_new(self, record: StepRecord | None = None) -> None:
        """Refuse to begin anything in a run that unwinds, or was told to stop.

        A step that had failed fails once more: a body that went on then has more to replay.
        """
        if self._unwinding and record is not None and record.status is StepStatus.FAILED:
            raise StepFailed(f"The step failed in an earlier attempt:\n{record.error}")
        if self._unwinding:
            raise self._leave(ReplayEnded())
        self._refuse_aborted()

    def _refuse_aborted(self) -> None:
        if self._token.aborted:
            self.refused = True
            raise Aborted("The run was cancelled; it starts no more steps.") from self._token.reason

    def _passed_boundary(self) -> None:
        if self.suspends_everywhere and not self._token.aborted:
            raise self._leave(Suspended(Parked()))

    def _leave(self, flow: ControlFlow) -> ControlFlow:
        self.left = flow
        return flow

    def _place(self, record: StepRecord | None) -> int:
        if record is not None:
            return record.position
        with self._lock:
            place = self._position
            self._position += 1
            return place

    def _write(
        self,
        opened: Opened,
        status: StepStatus,
        *,
        output: str | None = None,
        error: str | None = None,
    ) -> StepWrite:
        return StepWrite(
            name=opened.name,
            position=opened.position,
            status=status,
            output=output,
            error=error,
            attempts=opened.attempts + 1,
            took=timedelta(seconds=time.monotonic() - opened.began),
            undoable=opened.compensate is not None,
        )

    def _register(self, name: str, output: JSONValue, undo: Compensate | None) -> JSONValue:
        if undo is not None:
            with self._lock:
                self.compensations.append(Compensation(name, output, undo))
        return output

    def _numbered(self, name: str) -> str:
        count = self._sleeps[name] = self._sleeps.get(name, 0) + 1
        return name if count == 1 else f"{name}#{count}"

    def _kept(self, write: StepWrite) -> bool:
        snapshot = self._asked(
            lambda: self._store.put(self._fence, replace(write, since=self._since))
        )
        if snapshot is not None:
            self._since = snapshot
        return snapshot is not None

    def _asked(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except Unreachable as error:
            raise DriverUnavailable("The database that holds the steps did not answer.") from error

    def _lost(self) -> LeaseLost:
        lost = LeaseLost(f"'{self._spec.name}' lost its claim; nothing more is written.")
        if self._token.abort(lost):
            event(
                logging.ERROR,
                "jobs.lease.lost",
                worker=self._fence.worker,
                id=self._fence.job_id,
                name=self._spec.name,
            )
        return lost


@contextmanager
def inside(name: str) -> Iterator[None]:
    """Note that the block is the function of a step: no other step begins in it."""
    reset = _inside.set(name)
    try:
        yield
    finally:
        _inside.reset(reset)


def wants_signal(function: Callable[..., object]) -> bool:
    """Answer whether a function has a parameter named ``signal``."""
    if type(function) is FunctionType and not function.__dict__:  # nothing wraps it
        code = function.__code__
        return "signal" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    try:
        return "signal" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _loaded(output: str | None) -> JSONValue:
    return None if output is None else loads(output)


def _payload(schema: Schema[Any], name: str, output: str | None) -> Any:
    stored = _loaded(output)
    if stored is None:
        return None
    payload = stored.get("payload") if isinstance(stored, dict) else stored
    try:
        return schema.parse(payload)
    except InputInvalid as error:
        raise EventInvalid(f"The event of the wait '{name}' does not fit: {error.cause}") from None
