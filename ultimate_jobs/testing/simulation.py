"""Let workers run into each other in every order, the same one for the same seed.

    def test_no_seat_is_sold_twice(self) -> None:
        simulate_jobs(
            [(book, Booking(seat=1, guest="Ada")), (book, Booking(seat=1, guest="Bob"))],
            workers=3,
            invariant=lambda: not Seat.objects.filter(sold__gt=1).exists(),
        )

What breaks is shrunk, and told with the words that play it again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import groupby
from typing import Any, Literal

from django.db import transaction

from ultimate_jobs.conf import get_settings
from ultimate_jobs.definitions.job import Job
from ultimate_jobs.errors import InvariantError, SimulationFailed
from ultimate_jobs.operate.verbs import cancel_job
from ultimate_jobs.testing.crashes import Effects
from ultimate_jobs.testing.door import Side, door
from ultimate_jobs.testing.inline import InlineWorker
from ultimate_jobs.testing.processes import MOST_MOVES, Site, a_site, declared_jobs
from ultimate_jobs.testing.strands import Strand, current_strand

Fault = Literal["kill", "stall", "drain", "cancel"]
"""A worker dies, stands still until its leases run out, is told to stop; a job is cancelled."""

FAULTS: tuple[Fault, ...] = ("kill", "stall", "drain", "cancel")

MOST_FAULTS = 2
"""Faults of one run; more would use up the attempts of every job."""

MOST_REPLAYS = 60
"""Runs that a failure is shrunk with."""

MOST_DECISIONS = 2_000
"""Decisions that a run may take before it counts as endless."""

SHOWN = 60
"""Moves that a message tells of."""

Choice = Callable[[Sequence[float]], int]
"""Chooses one of the moves that can be made, by their weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationReport:
    """What was tried: how many runs, and how many decisions they took in all."""

    runs: int
    decisions: int


_Told = tuple[str, str, str]
"""A move that was made: who made it, what it was, and where that led."""


_Seen = tuple[Sequence[str], bool, Sequence[tuple[str, str]]]
"""Queues in which work is due, whether something is staged, and jobs that could be cancelled."""


@dataclass(frozen=True, slots=True)
class _Move:
    who: str
    what: str
    weight: float
    make: Callable[[], object]
    is_fault: bool = False


class _BrokenError(Exception):
    """What must hold does not, in a run that made these moves."""

    def __init__(self, cause: str, told: Sequence[_Told], choices: Sequence[int]) -> None:
        super().__init__(cause)
        self.cause = cause
        self.told = list(told)
        self.deviations = {n: choice for n, choice in enumerate(choices) if choice}


def simulate_jobs(  # noqa: PLR0913 - each says one thing about the world around the jobs
    jobs: Sequence[tuple[Job[Any, Any], Any]],
    *,
    invariant: Callable[[], object],
    workers: int = 2,
    seed: int = 0,
    runs: int = 20,
    outcome: Callable[[], object] = lambda: None,
    effects: Effects | tuple[Effects, ...] = (),
    setup: Callable[[], object] = lambda: None,
    meanwhile: Callable[[], object] = lambda: None,
    faults: Collection[Fault] = FAULTS,
    replay: Mapping[int, int] | None = None,
) -> SimulationReport:
    """Run jobs on several workers that take turns at every statement, in an order that a seed decides.

    A worker can be stopped before and after each statement outside a transaction; others then go
    on, the relay publishes, signs of life are given, and at most ``MOST_FAULTS`` faults happen. A
    transaction happens in one piece. A run that breaks what must hold is shrunk to the fewest turns
    that still do, and the error says how to replay them.

    Works in a ``TestCase`` and in a ``TransactionTestCase``; everything is undone. Bodies run on
    threads of their own, on the test's connections.

    Args:
        jobs: what is enqueued, in one transaction: pairs of a job and its input.
        invariant: what must hold after every move: it raises or answers ``False`` when it does not.
        workers: how many there are.
        seed: the first run's seed; each further one has the next.
        runs: how many runs to try.
        outcome: what must hold when every job has ended.
        effects: fakes that are cleared before each run.
        setup: makes the rows that the jobs need; called at the start of each run.
        meanwhile: what happens outside, such as an event; called whenever nothing is due, also
            more than once.
        faults: what may go wrong.
        replay: the turns of one run, as an error has printed them; only that run is tried.

    Raises:
        InvariantError: there are no workers or no runs.
        SimulationFailed: something that must hold did not.

    """
    if workers < 1 or runs < 1:
        raise InvariantError("A simulation has at least one worker and one run.")
    fakes = effects if isinstance(effects, tuple) else (effects,)
    play = _Play(
        jobs=jobs,
        workers=workers,
        invariant=invariant,
        outcome=outcome,
        fakes=fakes,
        setup=setup,
        meanwhile=meanwhile,
        faults=faults,
    )
    if replay is not None:
        try:
            return SimulationReport(runs=1, decisions=play.run(_following(replay)))
        except _BrokenError as broken:
            raise _told(broken, None) from None
    decisions = 0
    for number in range(seed, seed + runs):
        try:
            decisions += play.run(_random(number))
        except _BrokenError as broken:
            raise _told(_shrunk(play, broken), number) from None
    return SimulationReport(runs=runs, decisions=decisions)


def _random(seed: int) -> Choice:
    dice = random.Random(seed)  # noqa: S311 - the same order for the same seed
    return lambda weights: dice.choices(range(len(weights)), weights)[0]


def _following(deviations: Mapping[int, int]) -> Choice:
    """Take the first move each time, but for these."""
    turns = iter(range(MOST_DECISIONS + 1))

    def choose(weights: Sequence[float]) -> int:
        choice = deviations.get(next(turns), 0)
        return choice if choice < len(weights) else 0

    return choose


def _shrunk(play: _Play, broken: _BrokenError) -> _BrokenError:
    """Leave turns out, many at a time and then fewer, while the run still breaks."""
    size, start = len(broken.deviations), 0
    for _ in range(MOST_REPLAYS):
        turns = list(broken.deviations.items())
        if start >= len(turns):
            size, start = size // 2, 0
        if size < 1:
            break
        shorter = _breaks(play, dict(turns[:start] + turns[start + size :]))
        if shorter is not None and len(shorter.deviations) < len(turns):
            broken = shorter
        else:
            start += size
    return broken


def _breaks(play: _Play, deviations: Mapping[int, int]) -> _BrokenError | None:
    try:
        play.run(_following(deviations))
    except _BrokenError as broken:
        return broken
    return None


def _told(broken: _BrokenError, seed: int | None) -> SimulationFailed:
    moves = [
        f"  {who} {what}{[place for _, _, place in group][-1]}"
        for (who, what), group in groupby(broken.told, key=lambda move: move[:2])
    ]
    left_out = [f"  ({len(moves) - SHOWN} moves before)"] if len(moves) > SHOWN else []
    found = f" with seed {seed}" if seed is not None else ""
    text = "\n".join(
        [
            f"{broken.cause} It came about{found} like this:",
            *left_out,
            *moves[-SHOWN:],
            f"Replay it with simulate_jobs(..., replay={broken.deviations}).",
        ]
    )
    return SimulationFailed(text, meta={"seed": seed, "replay": broken.deviations})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Play:
    """What every run of a simulation has in common."""

    jobs: Sequence[tuple[Job[Any, Any], Any]]
    workers: int
    invariant: Callable[[], object]
    outcome: Callable[[], object]
    fakes: Sequence[Any]
    setup: Callable[[], object]
    meanwhile: Callable[[], object]
    faults: Collection[Fault]

    def run(self, choose: Choice) -> int:
        """Run the jobs to their end; answer how many decisions it took."""
        for fake in self.fakes:
            fake.clear()
        with a_site() as site:
            self.setup()
            with transaction.atomic(using=get_settings().database):
                for job, value in self.jobs:
                    job.enqueue(value)
            stage = _Stage(self, site, choose)
            with stage.open():
                return stage.to_the_end()


@dataclass(slots=True)
class _Seat:
    """A place for a worker, and what that is about to do."""

    name: str
    worker: InlineWorker
    strand: Strand | None = None


@dataclass(slots=True)
class _Stage:
    """One run."""

    play: _Play
    site: Site
    choose: Choice
    told: list[_Told] = field(default_factory=list)
    choices: list[int] = field(default_factory=list)
    faults: int = 0
    seats: list[_Seat] = field(default_factory=list)
    seen: _Seen | None = None

    @contextmanager
    def open(self) -> Iterator[None]:
        """Have the workers inside the block; whoever is still at work at its end is killed."""
        self.seats = [
            _Seat(f"worker {number}", self.site.worker())
            for number in range(1, self.play.workers + 1)
        ]
        with door(self.site.statements, self._pass):
            try:
                yield
            finally:
                for seat in self.seats:
                    if seat.strand is not None:
                        seat.strand.kill()

    def to_the_end(self) -> int:
        """Make moves until every job has ended; answer how many decisions it took."""
        rests = 0
        while len(self.choices) < MOST_DECISIONS and rests < MOST_MOVES:
            if moves := list(self._moves()):
                self._decide(moves)
            elif self._is_at_rest():
                self._check(self.play.outcome, "What must hold in the end does not.")
                return len(self.choices)
            else:
                rests += 1
        raise self._broken("The jobs never come to an end.")

    def _decide(self, moves: list[_Move]) -> None:
        choice = self.choose([move.weight for move in moves])
        move = moves[choice]
        self.choices.append(choice)
        self.faults += move.is_fault
        led = move.make()
        if move.what != "works":
            self.seen = None
        self.told.append((move.who, move.what, led if isinstance(led, str) else ""))
        self._check(self.play.invariant, "What must hold does not.")

    def _is_at_rest(self) -> bool:
        """Let time pass; answer whether there is nothing left to come."""
        self.seen = None
        self.play.meanwhile()
        if self.site.is_over():
            return True
        if not self.site.is_staged() and not self.site.queues_due():
            self.told.append(("time", "passes", ""))
            self.site.wait()
        return False

    def _check(self, holds: Callable[[], object], cause: str) -> None:
        try:
            if holds() is not False:
                return
        except AssertionError as error:
            cause = f"{cause} {error}".strip()
        raise self._broken(cause)

    def _broken(self, cause: str) -> _BrokenError:
        return _BrokenError(cause, self.told, self.choices)

    # The moves; the first of them is the plain one

    def _moves(self) -> Iterator[_Move]:
        last = self.told[-1][0] if self.told else ""
        at_work = [(seat, seat.strand) for seat in self.seats if seat.strand is not None]
        for seat, strand in sorted(at_work, key=lambda pair: pair[0].name != last):
            yield _Move(seat.name, "works", 5, partial(self._go_on, seat, strand))
        queues, is_staged, jobs = self._seen()
        if queues:
            for seat in [seat for seat in self.seats if seat.strand is None]:
                yield _Move(seat.name, "works", 3, partial(self._begin, seat, queues))
        if is_staged:
            yield _Move("relay", "publishes", 3, self.site.relay)
        busy = [seat for seat, _ in at_work]
        for seat in busy:
            yield _Move(seat.name, "gives a sign of life", 0.5, seat.worker.beat)
        if busy and self.faults < MOST_FAULTS:
            yield from self._faults(busy, jobs)

    def _seen(self) -> _Seen:
        """Answer what can be done, as it was found after the last statement that may change it."""
        if self.seen is None:
            jobs = declared_jobs().order_by("id").values_list("id", "name")
            may_cancel = "cancel" in self.play.faults
            self.seen = (
                self.site.queues_due(),
                self.site.is_staged(),
                [(str(job), name) for job, name in jobs[:5]] if may_cancel else [],
            )
        return self.seen

    def _faults(self, busy: Sequence[_Seat], jobs: Sequence[tuple[str, str]]) -> Iterator[_Move]:
        faults: dict[Fault, tuple[str, Callable[[_Seat], object]]] = {
            "kill": ("is killed", self._die),
            "stall": ("stands still until its leases run out", self._stall),
            "drain": ("is told to stop", lambda seat: seat.worker.stop()),
        }
        for fault, (what, make) in faults.items():
            for seat in busy if fault in self.play.faults else []:
                yield _Move(seat.name, what, 1.5, partial(make, seat), is_fault=True)
        for job, name in jobs:
            cancel = partial(cancel_job, job)
            yield _Move("operator", f"cancels '{name}'", 0.5, cancel, is_fault=True)

    def _go_on(self, seat: _Seat, strand: Strand) -> str:
        strand.resume()
        if not strand.ended:
            return f" and stops {strand.place}"
        seat.strand = None
        return " to the end of its turn"

    def _begin(self, seat: _Seat, queues: Sequence[str]) -> str:
        def work(strand: Strand) -> None:
            for held in seat.worker.claim(queues, 1).to_run:
                seat.worker.run(held)
                strand.refuse_the_dead()
            seat.worker.settle()

        strand = seat.strand = Strand(work)
        return self._go_on(seat, strand)

    def _die(self, seat: _Seat) -> None:
        if seat.strand is not None:
            seat.strand.kill()
        seat.strand, seat.worker = None, self.site.worker()

    def _stall(self, stalled: _Seat) -> None:
        """Let one worker give no sign of life for as long as a lease, while the others do."""
        lease = get_settings().visibility_timeout
        for span in (lease / 2, lease / 2 + timedelta(seconds=1)):
            for seat in self.seats:
                if seat is not stalled:
                    seat.worker.beat()
            self.site.clock.advance(span)

    def _pass(self, statement: str, side: Side) -> None:
        """Pause a worker at a statement, unless it has a transaction open."""
        strand = current_strand()
        if strand is None:
            return
        strand.refuse_the_dead()
        if side == "after" and not statement.startswith("SELECT"):
            self.seen = None
        if not self.site.in_transaction():
            strand.pause(f"{side} {statement}")
