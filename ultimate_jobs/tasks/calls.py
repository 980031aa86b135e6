"""The input of the job behind a task: one call of its function."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from typing import Any

from ultimate_jobs.core.jsonform import NotStorable, canonical, dumps
from ultimate_jobs.core.schema import schema_for
from ultimate_jobs.tasks.framework import InvalidTask, Task, normalize_json


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCall:
    """What the function is called with; ``using`` is how the enqueued task differed from the declared.

    ``backend`` is the alias of the backend that it was enqueued with.
    """

    args: list[Any]
    kwargs: dict[str, Any]
    backend: str
    using: dict[str, Any] = field(default_factory=dict)


CALLS = schema_for(TaskCall)
ONCE = "call"
"""The key of a call that may wait beside its like: a prefix of its own makes it differ."""

_PLAIN = ("priority", "queue_name", "max_attempts")


def call_of(
    task: Task[..., Any], declared: Task[..., Any], args: list[Any], kwargs: dict[str, Any]
) -> TaskCall:
    """Write down a call of a task."""
    plain = {name: getattr(task, name, None) for name in _PLAIN}
    using = {n: said for n, said in plain.items() if said != getattr(declared, n, None)}
    if task.run_after is not None:
        using["run_after"] = task.run_after.isoformat()
    return TaskCall(args=args, kwargs=kwargs, backend=task.backend, using=using)


def as_called(declared: Task[..., Any], call: TaskCall) -> Task[..., Any]:
    """Answer the task that was enqueued; the declared one when it could not be enqueued any more."""
    using = dict(call.using)
    if "run_after" in using:
        using["run_after"] = datetime.fromisoformat(using["run_after"])
    if call.backend != declared.backend:
        using["backend"] = call.backend
    if using:
        with suppress(InvalidTask, TypeError):
            return replace(declared, **using)
    return declared


def storable(value: Any) -> Any:
    """Answer what an argument or a return value is once it was stored and read back.

    Raises:
        TypeError: it has no JSON form.

    """
    try:
        return canonical(normalize_json(value))
    except NotStorable as error:
        raise TypeError(f"Unsupported value: {error}") from None


def key_by(unique: object) -> Callable[[TaskCall], str]:
    """Answer the function that says which calls are the same."""
    if callable(unique):
        by = unique
        return lambda call: by(*call.args, **call.kwargs)
    return _by_arguments if unique else lambda call: ONCE


def _by_arguments(call: TaskCall) -> str:
    return sha256(dumps(canonical([call.args, call.kwargs])).encode()).hexdigest()
