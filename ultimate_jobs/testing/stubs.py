"""Stand-ins for the world outside: functions that would call it, and events that it would send."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ultimate_jobs.core.durations import Duration
from ultimate_jobs.testing.clock import Clock


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a stub."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)


class Stub:
    """Stands for a function that calls the world outside: it notes its calls, and answers.

    Args:
        name: the path that it was put at.
        clock: moved by every call that takes time.
        answer: what it answers; called with the arguments when it is callable.
        answers: what it answers instead at its first calls, one each; an exception is raised.
        takes: how long a call takes. A body or step whose time is over by then is stopped.

    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        *,
        answer: object = None,
        answers: Iterable[object] = (),
        takes: Duration | None = None,
    ) -> None:
        self.name = name
        self.calls: list[Call] = []
        """Every call, in its order."""
        self._clock = clock
        self._answer = answer
        self._answers = iter(answers)
        self._takes = takes

    def __repr__(self) -> str:
        return f"<stub of {self.name}, called {len(self.calls)} times>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Note the call, let its time pass, and answer."""
        self.calls.append(Call(args, kwargs))
        if self._takes is not None:
            self._clock.advance(self._takes)
        found = next(self._answers, self._answer)
        if isinstance(found, BaseException):
            raise found
        if isinstance(found, type) and issubclass(found, BaseException):
            raise found(f"{self.name} was told to fail")
        return found(*args, **kwargs) if callable(found) else found

    async def awaited(self, *args: Any, **kwargs: Any) -> Any:
        """Be called where the project awaits the answer."""
        return self(*args, **kwargs)


@dataclass(frozen=True, slots=True)
class EventStub:
    """Answers every wait for an event: a service that always reacts.

    ``payload`` may be a function of the correlation key that the wait names, which answers the
    payload, or ``None`` for a wait that is not answered.
    """

    event: str
    payload: object
    answered: list[tuple[str | None, object]] = field(default_factory=list)
    """The key and the payload of every answer, in their order."""

    def payload_for(self, key: str | None) -> object:
        """Answer what is published for a wait."""
        return self.payload(key) if callable(self.payload) else self.payload
