"""What is stopped, by whom and why. A pause is a row; workers see it at their next claim."""

from __future__ import annotations

from typing import Any

from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.spec import checked_name
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.errors import DeclarationInvalid, InvariantError
from ultimate_jobs.models import Pause
from ultimate_jobs.operate.inspection import iso
from ultimate_jobs.operate.verbs import Act, kept_reason, whoever

QUEUE = Pause.Kind.QUEUE.value
MOST_PAUSES = 1_000


def pause_queue(name: str, *, by: str | None = None, reason: str | None = None) -> Act:
    """Let no worker claim from a queue; what runs goes on, and enqueueing too.

    A queue that is paused keeps its first pause: ``changed`` in the details is then false.

    Raises:
        InvariantError: no queue can have this name.

    """
    return pause(QUEUE, name, by=by, reason=reason)


def resume_queue(name: str, *, by: str | None = None) -> Act:
    """Let workers claim from a queue again; ``changed`` in the details says whether it was paused.

    Raises:
        InvariantError: no queue can have this name.

    """
    return resume(QUEUE, name, by=by)


def pause(kind: str, name: str, *, by: str | None, reason: str | None) -> Act:
    """Pause what ``kind`` says: the verb for every kind of pause."""
    who, why = whoever(by), kept_reason(reason)
    changed = get_driver().operator.pause(kind, _checked(kind, name), by=who, reason=why)
    return Act(verb="pause", by=who, reason=why, details=_details(kind, name, changed=changed))


def resume(kind: str, name: str, *, by: str | None) -> Act:
    """Resume what ``kind`` says: the verb for every kind of pause."""
    changed = get_driver().operator.resume(kind, _checked(kind, name))
    return Act(verb="resume", by=whoever(by), details=_details(kind, name, changed=changed))


def pauses(kind: str = QUEUE) -> list[dict[str, Any]]:
    """Answer what is paused, by name."""
    rows = Pause.objects.using(get_settings().database).filter(kind=kind).order_by("name")
    return [pause_row(row) for row in rows[:MOST_PAUSES]]


def pause_row(row: Pause) -> dict[str, Any]:
    """Answer one pause."""
    return {
        "kind": row.kind,
        "name": row.name,
        "paused_at": iso(row.paused_at),
        "paused_by": row.paused_by,
        "reason": row.reason,
    }


def _checked(kind: str, name: str) -> str:
    try:
        return checked_name(f"the name of a {kind}", name)
    except DeclarationInvalid as error:
        raise InvariantError(error.cause) from None


def _details(kind: str, name: str, *, changed: bool) -> dict[str, Any]:
    return {"kind": kind, "name": name, "changed": changed}
