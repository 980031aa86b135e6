"""What one process does: run a worker with whatever runs beside it, or one role alone."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ultimate_jobs.conf import Settings
from ultimate_jobs.definitions.registry import registry
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.process.pulse import Pulse
from ultimate_jobs.process.signals import (
    QUIET,
    STOP,
    Reaction,
    dumping_stacks,
    handling,
    stop_then_hurry,
)
from ultimate_jobs.process.wake import listening
from ultimate_jobs.supervise.health import Member, judge, ready_within
from ultimate_jobs.supervise.parent import Parent
from ultimate_jobs.supervise.probes import At, Source, shown
from ultimate_jobs.supervise.recycling import Limits, Recycler
from ultimate_jobs.supervise.roles import ROLES, Role
from ultimate_jobs.worker.loop import Worker

GRACE = 0.25
"""Seconds that bodies get after SIGQUIT: enough for one that listens to give its attempt back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a worker process is to do.

    Attributes:
        settings: intervals and limits.
        queues: the queues to serve.
        concurrency: bodies to run at once.
        name: what to call the process.
        limits: when it has worked enough.

    """

    settings: Settings
    queues: Sequence[str]
    concurrency: int
    name: str | None = None
    limits: Limits = field(default_factory=Limits)

    def worker(self, pulse: Pulse | None = None) -> Worker:
        """Make the worker; nothing is started and nothing is asked."""
        return Worker(
            get_driver(),
            registry,
            self.limits.within(self.settings),
            queues=self.queues,
            concurrency=self.concurrency,
            name=self.name,
            recycle=Recycler(self.limits),
            pulse=pulse,
        )

    def refuse_early(self, roles: Sequence[str]) -> None:
        """Make the worker and the roles once, so that what cannot run is refused in time."""
        self.worker()
        for name in roles:
            ROLES[name](self.settings, Pulse(name))


def run_worker(
    plan: Plan,
    *,
    roles: Sequence[str] = (),
    health: At | Path | None = None,
    parent: Parent | None = None,
    until_idle: Callable[[], int] | None = None,
) -> int:
    """Run a worker on this thread, and roles beside it, until it ends; answer the exit code.

    Args:
        plan: what it is to do.
        roles: what runs beside it, each on a thread.
        health: where its health is shown.
        parent: the process that supervises this one, if one does.
        until_idle: end once nothing is due; asked for more work before.

    """
    pulse = Pulse("worker")
    worker = plan.worker(pulse)
    beside = {name: Pulse(name) for name in roles}
    loops = [ROLES[name](plan.settings, its) for name, its in beside.items()]
    if parent is not None and parent.quiet:
        worker.quiet()
    quiet = worker.quiet if until_idle is None else worker.stop
    with ExitStack() as stack:
        stack.enter_context(handling(_reactions(worker, quiet, supervised=parent is not None)))
        stack.enter_context(dumping_stacks(lambda name: worker.report()))
        stack.enter_context(_shown([pulse, *beside.values()], plan.settings, health, parent))
        if until_idle is None:
            told = [*worker.subscribers(), *(one for loop in loops for one in loop.subscribers())]
            stack.enter_context(listening(get_driver(), plan.settings, *told))
        for loop in loops:
            stack.enter_context(_on_thread(loop))
        if until_idle is None:
            stack.enter_context(_frozen())
            worker.run()
        else:
            worker.run(until_idle=True, feed=until_idle)
    return 1 if worker.stats.abandoned else 0


def run_role(
    name: str,
    settings: Settings,
    *,
    health: At | Path | None = None,
    parent: Parent | None = None,
) -> int:
    """Run one role on this thread until it is stopped; answer the exit code."""
    pulse = Pulse(name)
    role = ROLES[name](settings, pulse)
    stop: Reaction = lambda signal_name: role.stop()  # noqa: E731 - a reaction takes the name
    ignore: Reaction = lambda signal_name: None  # noqa: E731 - a role claims nothing
    reactions = dict.fromkeys((*STOP, signal.SIGQUIT), stop) | dict.fromkeys(QUIET, ignore)
    with (
        handling(reactions),
        dumping_stacks(),
        _shown([pulse], settings, health, parent),
        listening(get_driver(), settings, *role.subscribers()),
    ):
        role.run()
    return 0


def _reactions(
    worker: Worker, quiet: Callable[[], None], *, supervised: bool
) -> Mapping[signal.Signals, Reaction]:
    """Answer what each signal does.

    A supervisor passes signals on, and its children may get the same one from a terminal or a
    process manager too. So only a process on its own counts them; a child is hurried by SIGQUIT.
    """
    stop: Mapping[signal.Signals, Reaction]
    if supervised:
        stop = dict.fromkeys(STOP, worker.interrupt)
    else:
        stop = stop_then_hurry(worker.interrupt, lambda name: worker.hurry())
    return {
        **stop,
        signal.SIGQUIT: lambda name: worker.interrupt(name, GRACE),
        **dict.fromkeys(QUIET, lambda name: quiet()),
    }


@contextmanager
def _shown(
    pulses: Sequence[Pulse], settings: Settings, health: At | Path | None, parent: Parent | None
) -> Iterator[None]:
    """Tell the supervisor, or the orchestrator, how the loops are."""
    with ExitStack() as stack:
        if parent is not None:
            stack.enter_context(parent.followed(lambda: [pulse.read() for pulse in pulses]))
        stack.enter_context(shown(health, source_of(pulses, settings)))
        yield


def source_of(pulses: Sequence[Pulse], settings: Settings) -> Source:
    """Answer a function that judges these loops of this process."""
    within = ready_within(settings)
    name = pulses[0].read().loop
    return lambda: judge([Member(name, os.getpid(), [one.read() for one in pulses])], within)


@contextmanager
def _frozen() -> Iterator[None]:
    """Spare the garbage collector, inside the block, what was loaded before it: it stays anyway."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def _on_thread(role: Role) -> Iterator[None]:
    """Run a role on a thread of its own inside the block."""
    thread = threading.Thread(target=role.run, name="ultimate_jobs-role", daemon=True)
    thread.start()
    try:
        yield
    finally:
        role.stop()
        thread.join()
