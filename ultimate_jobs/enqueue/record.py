"""From a declaration, inputs and options to rows: everything is refused here or not at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, get_args
from uuid import UUID

from django.conf import settings as django_settings
from django.db.models import Model
from django.utils.timezone import get_default_timezone, is_naive, make_aware

from ultimate_jobs.conf import get_settings
from ultimate_jobs.core import keys
from ultimate_jobs.core.durations import duration
from ultimate_jobs.core.ids import new_ids
from ultimate_jobs.core.jsonform import NotStorable, canonical, dumps
from ultimate_jobs.core.records import Batch, NewJob
from ultimate_jobs.core.spec import JobSpec, NoTenant, checked_name
from ultimate_jobs.enqueue.options import OnConflict, Options
from ultimate_jobs.errors import (
    DeclarationInvalid,
    IdInvalid,
    InputTooLarge,
    InvariantError,
    TenantMismatch,
)
from ultimate_jobs.tenancy import Actor, current_actor, is_crossing

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_NO_SPAN = "0" * 16
_INT4 = 2**31
_ON_CONFLICT = get_args(OnConflict)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch whose keys differ, and for each input the place of its job in the batch."""

    batch: Batch
    places: Sequence[int]


def prepare(spec: JobSpec, inputs: Sequence[Any], options: Options) -> Prepared:
    """Turn inputs into rows.

    Raises:
        RefusedError, DeclarationInvalid: anything about the inputs or the options is wrong;
            nothing has been written.

    """
    actor = options.actor if options.as_actor else current_actor()
    most = get_settings().max_input_bytes
    parsed = [_checked_input(spec, value, most) for value in inputs]
    if not isinstance(spec.tenant, NoTenant):
        for value, _ in parsed:
            _refuse_other_tenant(spec.name, spec.tenant, value, options, actor)
    run_id = _run_id(options.run_id)
    ids = new_ids(2 * len(parsed))
    jobs: list[NewJob] = []
    places: list[int] = []
    found: dict[str, int] = {}
    for value, text in parsed:
        key = keys.idempotency_key(
            spec.name, spec.idempotency_key, value, prefix=options.key_prefix
        )
        lease_key = spec.lease_key(value)
        place = found.setdefault(key, len(jobs))
        if place == len(jobs):
            jobs.append(NewJob(next(ids), run_id or next(ids), key, text, lease_key))
        places.append(place)
    return Prepared(_batch(spec, jobs, options, actor), places)


def _batch(spec: JobSpec, jobs: Sequence[NewJob], options: Options, actor: Actor | None) -> Batch:
    _one_of("on_conflict", options.on_conflict, _ON_CONFLICT)
    run_at, delay = _when(options)
    type_id, object_id = _related(options.related)
    return Batch(
        name=spec.name,
        queue=spec.queue if options.queue is None else _queue(options.queue),
        jobs=jobs,
        max_attempts=spec.max_attempts,
        priority=_priority(options.priority),
        run_at=run_at,
        delay=delay,
        tenant_id=_label("tenant", options.tenant, actor.org if actor else None),
        traceparent=_traceparent(options.traceparent),
        enqueued_by=_label("enqueued_by", options.enqueued_by, actor.id if actor else None),
        related_type_id=type_id,
        related_id=object_id,
    )


def _checked_input(spec: JobSpec, value: Any, most: int) -> tuple[Any, str]:
    """Answer the input as its body will see it, and the text that is stored."""
    stored = spec.schema.dump(value)
    text = dumps(stored)
    size = len(text) if text.isascii() else len(text.encode())
    if size > most:
        raise InputTooLarge(
            f"The input of '{spec.name}' takes {size:,} bytes; the limit is {most:,}."
        )
    return spec.schema.parse(stored), text


def _refuse_other_tenant(
    name: str,
    compute: Callable[[Any], str],
    value: Any,
    options: Options,
    actor: Actor | None,
) -> None:
    org = keys.tenant(name, compute, value)
    if options.tenant is not None and options.tenant != org:
        raise TenantMismatch(f"'{name}': the enqueue names another tenant than the input.")
    lifted = is_crossing() and not options.as_actor
    if actor is not None and actor.org and actor.org != org and not lifted:
        raise TenantMismatch(f"'{name}': the actor belongs to another tenant than the input.")


def _run_id(given: object) -> UUID | None:
    if given is None or isinstance(given, UUID):
        return given
    if not isinstance(given, str) or _UUID.fullmatch(given) is None:
        raise IdInvalid("run_id is no lowercase UUID.")
    return UUID(given)


def _when(options: Options) -> tuple[datetime | None, timedelta | None]:
    if options.run_at is not None and options.delay is not None:
        raise InvariantError("An enqueue has run_at or delay, not both.")
    if options.delay is not None:
        try:
            return None, duration(options.delay, zero=True)
        except ValueError as error:
            raise InvariantError(f"delay {error}.") from None
    return _instant(options.run_at), None


def _instant(given: datetime | None) -> datetime | None:
    if given is None:
        return None
    if not isinstance(given, datetime):
        raise InvariantError("run_at must be a datetime.")
    if not is_naive(given):
        return given
    if django_settings.USE_TZ:
        raise InvariantError("run_at has no time zone.", fix="Pass an aware datetime.")
    return make_aware(given, get_default_timezone())


def _priority(given: int) -> int:
    if type(given) is not int or not -_INT4 <= given < _INT4:
        raise InvariantError("priority must be a whole number of 32 bits.")
    return given


def _queue(given: str) -> str:
    try:
        return checked_name("queue", given)
    except DeclarationInvalid as error:
        raise InvariantError(error.cause) from None


def _label(what: str, given: object, actors: str | None) -> str | None:
    if given is None:
        given = actors or None
    if given is None:
        return None
    if not isinstance(given, str) or not given:
        raise InvariantError(f"{what} must be text that is not empty.")
    try:
        canonical(given)
    except NotStorable:
        raise InvariantError(f"{what} holds characters that cannot be stored.") from None
    return given


def _traceparent(given: object) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str) or _TRACEPARENT.fullmatch(given) is None:
        raise InvariantError("traceparent is no W3C trace context.")
    return None if given.split("-")[2] == _NO_SPAN else given


def _related(given: object) -> tuple[int | None, str | None]:
    if given is None:
        return None, None
    from django.contrib.contenttypes.models import (  # noqa: PLC0415 - apps are still loading
        ContentType,
    )

    if not isinstance(given, Model) or given.pk is None:
        raise InvariantError("related must be a saved object.")
    kind = ContentType.objects.db_manager(get_settings().database).get_for_model(given)
    return kind.pk, str(given.pk)


def _one_of(what: str, given: object, allowed: Sequence[str]) -> None:
    if given not in allowed:
        raise InvariantError(f"{what} must be one of: {', '.join(allowed)}.")
