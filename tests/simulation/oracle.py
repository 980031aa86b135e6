"""What must come of a program: the rules of jobs and steps said once more, in memory.

It knows nothing of the package but its words. It says the statements of every worker in their
order, for deaths are counted by them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.simulation.programs import Atomic, Code, Disturbance, Program, Sleep, Step, Wait

MARGIN = 2
"""Starts that a job with compensations has beyond its attempts."""

LIVES = 60
"""Workers that a program may take; more means that it never ends."""


@dataclass(slots=True)
class World:
    """What came of a program; the real one is read into the same shape."""

    state: str = "ready"
    attempt: int = 0
    claims: int = 0
    result: list[str] | None = None
    calls: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    steps: dict[str, str] = field(default_factory=dict)
    statements: list[str] = field(default_factory=list)


class Dead(BaseException):
    """The worker died."""


class Left(BaseException):
    """The body was left: the run is suspended."""

    def __init__(self, step: tuple[str, str] | None = None, *, wait: bool = False) -> None:
        self.step = step
        self.wait = wait


class ReplayEnded(BaseException):
    """A replay met what is not done."""


class Refused(Exception):
    """The run was told to stop and begins nothing more."""


class Lost(Exception):
    """The claim is gone."""


class Broken(Exception):
    """What a function raised."""

    def __init__(self, *, terminal: bool) -> None:
        self.terminal = terminal


@dataclass(slots=True)
class Attempt:
    """What one worker knows about one attempt."""

    unwinding: bool = False
    loaded: bool = False
    drained: bool = False
    lost: bool = False
    refused: bool = False
    left: Left | None = None
    in_doubt: str | None = None
    undone: list[tuple[str, int]] = field(default_factory=list)


class Oracle:
    """Plays a program in memory."""

    def __init__(self, program: Program) -> None:
        self.world = World()
        self._program = program
        self._deaths = dict(program.deaths)
        self._worker = 0
        self._place = 0
        self._tried: Counter[str] = Counter()
        self._reached: Counter[str] = Counter()
        self._disturbed: set[str] = set()
        self._failures: Counter[str] = Counter()
        self._undoable = {n for n, one in program.named if isinstance(one, Step) and one.undo}
        self._committed = False
        self._is_early = False
        self._is_over = False

    def play(self) -> World:
        """Play it to its end."""
        for _ in range(LIVES):
            if self.world.state in {"done", "dead", "cancelled"}:
                return self.world
            with suppress(Dead):
                self._life()
        raise AssertionError("the program never ends")

    # One claim

    @contextmanager
    def _said(self, statement: str) -> Iterator[None]:
        """Say a statement; the block is what it does."""
        self.world.statements.append(statement)
        self._maybe_die()
        yield
        self._maybe_die()

    def _maybe_die(self) -> None:
        place, self._place = self._place, self._place + 1
        if self._deaths.get(self._worker) == place:
            self._worker, self._place = self._worker + 1, 0
            raise Dead

    def _life(self) -> None:
        world, program = self.world, self._program
        most = program.attempts + (MARGIN if program.compensates else 0)
        with self._said("queue/claim"):
            if world.state == "running" and world.attempt >= most:
                world.state = "dead"
            else:
                # A run that rests is claimed when its time has come, or what it waits for.
                self._is_over |= world.state == "suspended" and not self._is_early
                world.state, world.attempt = "running", world.attempt + 1
                world.claims += 1
        if world.state == "dead":
            return
        attempt = Attempt(loaded=world.claims == 1)
        if program.compensates and world.claims > 1:
            self._load(Attempt())
            if "unwinding" in world.steps or world.attempt > program.attempts:
                self._back(Attempt(unwinding=True))
                return
        self._forward(attempt)

    def _forward(self, attempt: Attempt) -> None:
        last = self.world.attempt >= self._program.attempts
        try:
            result = self._body(attempt)
        except Left as left:
            self._park(left)
        except (Broken, Refused, Lost) as error:
            terminal = isinstance(error, Broken) and error.terminal
            told = attempt.drained or attempt.lost
            if attempt.drained and not attempt.lost:
                self._settle("ready", counted=False)
            elif self._program.compensates and not told and (terminal or last):
                self._unwound(attempt)
            else:
                self._settle("dead" if terminal or last else "ready")
        else:
            if attempt.left is not None:
                self._park(attempt.left)
            elif attempt.refused:
                self._settle("ready", counted=False)
            else:
                self._settle("done", result=result)

    def _back(self, attempt: Attempt) -> None:
        try:
            self._body(attempt)
        except (Broken, Refused, Lost, Left, ReplayEnded):
            if attempt.drained:
                self._settle("ready", counted=False)
                return
        self._unwound(attempt)

    def _unwound(self, attempt: Attempt) -> None:
        try:
            self._unwind(attempt)
        except Lost:
            self._settle("dead")

    def _unwind(self, attempt: Attempt) -> None:
        world = self.world
        if not attempt.undone and attempt.in_doubt is None and not self._forgotten(attempt):
            self._settle("dead")
            return
        if attempt.drained:
            self._settle("ready", counted=False)
            return
        self._load(attempt)
        if "unwinding" not in world.steps:
            self._put("unwinding", "completed")
        if attempt.in_doubt is not None:
            self._settle("dead")
            return
        spare = world.attempt < self._program.attempts + MARGIN
        failed = "ready" if spare else "dead"
        if self._forgotten(attempt):
            self._settle(failed)
            return
        undone = all(self._undo(name, fails) for name, fails in reversed(attempt.undone))
        self._settle("dead" if undone else failed)

    def _undo(self, step: str, fails: int) -> bool:
        name = f"compensate:{step}"
        if self.world.steps.get(name) == "completed":
            return True
        self.world.calls.append(name)
        self._tried[name] += 1
        works = self._tried[name] > fails
        self._put(name, "completed" if works else "failed")
        return works

    def _forgotten(self, attempt: Attempt) -> bool:
        self._load(attempt)
        done = {name for name in self._undoable if self.world.steps.get(name) == "completed"}
        return bool(done - {name for name, _ in attempt.undone})

    def _settle(self, state: str, *, counted: bool = True, result: list[str] | None = None) -> None:
        world = self.world
        with self._said("queue/settle_done" if state == "done" else "queue/settle"):
            if world.state == "running":
                world.state, world.result = state, result
                world.attempt -= not counted

    def _park(self, left: Left) -> None:
        world = self.world
        with self._said("queue/settle"):
            if world.state != "running":
                return
            world.state, world.attempt = "suspended", world.attempt - 1
            self._is_early, self._is_over = left.wait, False
            if left.step is not None:
                name, status = left.step
                world.steps.setdefault(name, status)
        if left.wait:
            with self._said("events/publishing"):
                pass
            with self._said("steps/look_again"):
                self._is_early = False

    # The body

    def _body(self, attempt: Attempt) -> list[str]:  # noqa: C901 - one case for each instruction
        answers: list[str] = []
        for name, one in self._program.named:
            match one:
                case Step() | Atomic():
                    run = self._step if isinstance(one, Step) else self._atomic
                    try:
                        run(attempt, name, one)  # type: ignore[arg-type]
                    except (Broken, Refused, Lost):
                        if not one.caught:
                            raise
                        answers.append(f"{name} failed")
                    else:
                        answers.append(name)
                case Code():
                    self._disturb(attempt, name, one.during)
                    self._reached[name] += 1
                    if self._reached[name] <= one.fails:
                        raise Broken(terminal=one.terminal)
                case Sleep():
                    self._sleep(attempt, name)
                case Wait():
                    if one.answer == "provoked":
                        self._step(attempt, f"{name}-ask", Step(), provokes=name)
                    answers.append(self._wait(attempt, name, one))
        return answers

    def _opened(self, attempt: Attempt, name: str, one: Step) -> bool:
        """Open a step; answer whether it is to run."""
        self._enter(attempt)
        self._load(attempt)
        status = self.world.steps.get(name)
        if status == "completed":
            if one.undo:
                attempt.undone.append((name, one.undo_fails))
            return False
        if status in {"started", "failed"} and one.once:
            attempt.in_doubt = name if one.undo else None
            raise Broken(terminal=True)
        if attempt.unwinding and status == "failed":
            raise Broken(terminal=True)
        self._refuse_new(attempt)
        if one.once:
            self._put(name, "started", attempt)
            attempt.in_doubt = name if one.undo else None
        return True

    def _step(self, attempt: Attempt, name: str, one: Step, provokes: str | None = None) -> None:
        if not self._opened(attempt, name, one):
            return
        try:
            self._called(attempt, name, one, lambda: self._answer(provokes))
        except Broken as error:
            if one.once and one.undo:
                attempt.in_doubt = name
            if attempt.drained or attempt.lost or not self._kept(name, "failed"):
                raise
            if self._is_retried(name, one, error):
                attempt.left = Left()
                raise attempt.left from None
            raise
        self._put(name, "completed", attempt)
        if one.undo:
            attempt.in_doubt = None if attempt.in_doubt == name else attempt.in_doubt
            attempt.undone.append((name, one.undo_fails))
        self._boundary(attempt)

    def _is_retried(self, name: str, one: Step, error: Broken) -> bool:
        tried_by_itself = one.retries > 0 and not one.once and not error.terminal
        return tried_by_itself and self._failures[name] <= one.retries

    def _atomic(self, attempt: Attempt, name: str, one: Atomic) -> None:
        if not self._opened(attempt, name, Step()):
            return
        rows, steps = list(self.world.rows), dict(self.world.steps)
        try:
            self._called(attempt, name, one, lambda: self._insert(name))
            self._put(name, "completed", attempt)
            self._commit()
        except (Broken, Lost):
            self._restore(rows, steps)
            if not attempt.drained and not attempt.lost:
                self._kept(name, "failed")
            raise
        except Dead:
            if not self._committed:
                self._restore(rows, steps)
            raise
        self._boundary(attempt)

    def _restore(self, rows: list[str], steps: dict[str, str]) -> None:
        self.world.rows, self.world.steps = rows, steps

    def _commit(self) -> None:
        with self._said("COMMIT"):
            self._committed = True

    def _insert(self, name: str) -> None:
        self._committed = False
        with self._said("INSERT"):
            self.world.rows.append(name)

    def _answer(self, wait: str | None) -> None:
        if wait is not None:
            for statement in ("events/announce", "events/publish"):
                with self._said(statement):
                    pass
            with self._said("COMMIT"):
                pass

    def _called(
        self, attempt: Attempt, name: str, one: Step | Atomic, work: Callable[[], None]
    ) -> None:
        self.world.calls.append(name)
        self._tried[name] += 1
        work()
        self._disturb(attempt, name, one.during)
        if self._tried[name] <= one.fails:
            raise Broken(terminal=one.terminal)

    def _disturb(self, attempt: Attempt, name: str, during: Disturbance) -> None:
        if during is None or name in self._disturbed:
            return
        self._disturbed.add(name)
        if during == "drain":
            attempt.drained = True
        elif not attempt.drained and not attempt.lost:
            with self._said("operator/cancel"):
                self.world.state = "cancelled"

    def _sleep(self, attempt: Attempt, name: str) -> None:
        self._enter(attempt)
        self._load(attempt)
        if self.world.steps.get(name) == "completed":
            return
        self._refuse_new(attempt)
        attempt.left = Left((name, "sleeping"))
        raise attempt.left

    def _wait(self, attempt: Attempt, name: str, one: Wait) -> str:
        self._enter(attempt)
        self._load(attempt)
        status = self.world.steps.get(name)
        if status is None:
            self._refuse_new(attempt)
            attempt.left = Left((name, "waiting"), wait=True)
            raise attempt.left
        if status == "waiting":
            if attempt.drained or attempt.lost:
                attempt.refused = True
                raise Refused
            with self._said("steps/settle_wait"):
                if over := self._is_over or one.answer == "provoked":
                    self.world.steps[name] = "completed"
            if not over:
                attempt.left = Left(wait=True)
                raise attempt.left
            self._boundary(attempt)
        return "nothing" if one.answer == "never" else name

    # What all have in common

    def _enter(self, attempt: Attempt) -> None:
        if attempt.left is not None:
            raise attempt.left

    def _load(self, attempt: Attempt) -> None:
        if not attempt.loaded:
            with self._said("steps/load"):
                attempt.loaded = True
                for name, status in self.world.steps.items():
                    if status == "sleeping":  # nothing claims a run that sleeps before its time
                        self.world.steps[name] = "completed"

    def _refuse_new(self, attempt: Attempt) -> None:
        if attempt.unwinding:
            raise ReplayEnded
        if attempt.drained or attempt.lost:
            attempt.refused = True
            raise Refused

    def _boundary(self, attempt: Attempt) -> None:
        if self._program.suspends and not attempt.drained and not attempt.lost:
            attempt.left = Left()
            raise attempt.left

    def _put(self, name: str, status: str, attempt: Attempt | None = None) -> None:
        if not self._kept(name, status):
            if attempt is not None:
                attempt.lost = True
            raise Lost

    def _kept(self, name: str, status: str) -> bool:
        with self._said(f"steps/put of '{name}' ({status})"):
            if self.world.state == "running":
                self.world.steps[name] = status
                self._failures[name] += status == "failed"
        return self.world.state == "running"
