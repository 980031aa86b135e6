"""Programs, played for real: bodies that do what they say, on PostgreSQL."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from testproject.shop.models import Order
from tests.builders import Ping, declared
from tests.simulation.oracle import World
from tests.simulation.programs import Atomic, Code, Disturbance, Program, Sleep, Step, Wait
from ultimate_jobs import Retry, Run, publish_event, register_error_retry
from ultimate_jobs.errors import JobNotCancellable
from ultimate_jobs.models import Job, JobStep
from ultimate_jobs.operate.verbs import cancel_job
from ultimate_jobs.testing.boundaries import every_boundary_suspends
from ultimate_jobs.testing.door import Side
from ultimate_jobs.testing.processes import Succession, a_site

TERMINAL = "tests.simulation.terminal"
TIMEOUT = "3h"


class Broken(Exception):
    """What a function raises."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__("broken")
        self.code = TERMINAL if terminal else None


def play(program: Program) -> World:
    """Play a program to its end, and read what came of it."""
    register_error_retry({TERMINAL: "terminal"})
    playing = _Playing(program)

    def body(run: Run[Ping]) -> list[str]:
        return playing.body(run)

    retry = Retry(attempts=program.attempts, delay="1m", jitter=False)
    job = declared(body, retry=retry, compensates=program.compensates, event_poll="1d")
    suspending = every_boundary_suspends() if program.suspends else nullcontext()
    with job as handle, a_site() as site, suspending:
        queued = handle.enqueue(Ping("program"))
        playing.workers = Succession(site=site, dies=playing.dies, meanwhile=playing.publish)
        assert playing.workers.to_the_end()
        row = Job.objects.get(id=queued.id)
        return World(
            state=row.state,
            attempt=row.attempt,
            claims=row.claim,
            result=row.result,
            calls=playing.calls,
            rows=list(Order.objects.order_by("id").values_list("sku", flat=True)),
            steps=dict(JobStep.objects.filter(run_id=row.run_id).values_list("name", "status")),
            statements=playing.statements,
        )


@dataclass(slots=True)
class _Playing:
    program: Program
    workers: Succession | None = None
    calls: list[str] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    _places: Counter[int] = field(default_factory=Counter)
    _reached: Counter[str] = field(default_factory=Counter)
    _disturbed: set[str] = field(default_factory=set)

    def dies(self, statement: str, side: Side) -> bool:
        """Say whether a worker dies here."""
        assert self.workers is not None
        if side == "before":
            is_row = statement.startswith('INSERT INTO "shop_order"')
            self.statements.append("INSERT" if is_row else statement)
        worker = self.workers.deaths
        place, self._places[worker] = self._places[worker], self._places[worker] + 1
        return (worker, place) in self.program.deaths

    def publish(self) -> None:
        """Answer the waits that are answered from outside."""
        for name, one in self.program.named:
            waits = JobStep.objects.filter(name=name, status="waiting")
            if isinstance(one, Wait) and one.answer == "meanwhile" and waits.exists():
                publish_event(name, name)

    def body(self, run: Run[Ping]) -> list[str]:
        """Do what the program says."""
        answers: list[str] = []
        for name, one in self.program.named:
            match one:
                case Step() | Atomic():
                    answers.append(self._called(run, name, one))
                case Code():
                    self._disturb(run, name, one.during)
                    self._reached[name] += 1
                    self._break(name, one)
                case Sleep():
                    run.sleep(name, f"{one.hours}h")
                case Wait():
                    if one.answer == "provoked":
                        run.step(f"{name}-ask", lambda name=name: self._ask(name))
                    answer = run.wait_for_event(name, name, schema=str, timeout=TIMEOUT)
                    answers.append(answer or "nothing")
        return answers

    def _called(self, run: Run[Ping], name: str, one: Step | Atomic) -> str:
        def work() -> str:
            self.calls.append(name)
            self._reached[name] += 1
            if isinstance(one, Atomic):
                Order.objects.create(
                    reference=f"{name}-{len(self.calls)}", sku=name, amount=Decimal(1)
                )
            self._disturb(run, name, one.during)
            self._break(name, one)
            return name

        try:
            if isinstance(one, Atomic):
                return run.atomic(name, work, returns=str)
            return run.step(name, work, returns=str, **self._options(name, one))
        except Exception:
            if not one.caught:
                raise
            return f"{name} failed"

    def _options(self, name: str, one: Step) -> dict[str, Any]:
        def undo(output: str) -> None:
            self.calls.append(f"compensate:{name}")
            self._reached[f"compensate:{name}"] += 1
            if self._reached[f"compensate:{name}"] <= one.undo_fails:
                raise Broken(terminal=False)

        policy = Retry(attempts=one.retries + 1, delay="1m", jitter=False)
        return {
            "once": one.once,
            "compensate": undo if one.undo else None,
            "retry": policy if one.retries else None,
        }

    def _ask(self, name: str) -> None:
        self.calls.append(f"{name}-ask")
        publish_event(name, name)

    def _break(self, name: str, one: Step | Atomic | Code) -> None:
        if self._reached[name] <= one.fails:
            raise Broken(terminal=one.terminal)

    def _disturb(self, run: Run[Ping], name: str, during: Disturbance) -> None:
        if during is None or name in self._disturbed:
            return
        self._disturbed.add(name)
        assert self.workers is not None
        if during == "drain":
            self.workers.stop()
        elif not run.signal.aborted:
            with suppress(JobNotCancellable):
                cancel_job(str(run.job_id))
