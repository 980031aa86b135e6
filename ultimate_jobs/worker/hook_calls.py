"""The calls of ending hooks: each takes a slot of the process like a body, and has a ceiling."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.errors import JobTimeout
from ultimate_jobs.worker.deadlines import Deadlines
from ultimate_jobs.worker.hooks import Hook, report_failure, run_hook
from ultimate_jobs.worker.threads import BodyThreads


class HookCalls:
    """Calls hooks on body threads as soon as there is room. Used by the dispatcher.

    Args:
        driver: where the hook's thread tidies its connections.
        threads: where hooks run.
        deadlines: what watches their ceilings.
        has_room: whether one more may start.
        ended: told, on the body thread, when a hook is through.

    """

    def __init__(
        self,
        driver: Driver,
        threads: BodyThreads,
        deadlines: Deadlines,
        *,
        has_room: Callable[[], bool],
        ended: Callable[[Hook], None],
    ) -> None:
        self._driver = driver
        self._threads = threads
        self._deadlines = deadlines
        self._has_room = has_room
        self._ended = ended
        self._running: set[Hook] = set()
        self._waiting: deque[Hook] = deque()

    def __len__(self) -> int:
        return len(self._running) + len(self._waiting)

    @property
    def running(self) -> int:
        """How many run now."""
        return len(self._running)

    def call(self, hook: Hook) -> None:
        """Call a hook as soon as there is room for it."""
        self._waiting.append(hook)
        self._start()

    def over(self, hook: Hook) -> None:
        """Note that a hook is through, and start the next."""
        self._deadlines.forget(hook)
        self._running.discard(hook)
        self._start()

    def _start(self) -> None:
        while self._waiting and self._has_room():
            hook = self._waiting.popleft()
            self._running.add(hook)
            self._watch(hook)
            self._threads.start(self._run, [hook])

    def _watch(self, hook: Hook) -> None:
        seconds = hook.spec.on_settled_timeout.total_seconds()
        self._deadlines.set(hook, seconds, lambda: self._give_up_on(hook))

    def _run(self, hook: Hook) -> bool:
        failure = run_hook(hook, self._driver)
        landed = hook.flight.land()
        if landed:
            if failure is not None:
                report_failure(hook, failure)
            self._ended(hook)
        return landed

    def _give_up_on(self, hook: Hook) -> None:
        late = JobTimeout(f"The on_settled hook of '{hook.spec.name}' took too long.")
        hook.token.abort(late)
        if hook.flight.give_up():
            report_failure(hook, late)
            self._threads.lost(hook)
            self.over(hook)
