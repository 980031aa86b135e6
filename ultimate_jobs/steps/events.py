"""``publish_event``: what waiting runs wait for."""

from __future__ import annotations

import logging
from datetime import timedelta

from asgiref.sync import sync_to_async

from ultimate_jobs.core.durations import Duration, duration
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.jsonform import NotStorable, canonical, dumps
from ultimate_jobs.core.records import NewEvent
from ultimate_jobs.drivers.base import Unreachable
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.errors import DriverUnavailable, EventNotPublishable, OutboxWrongDatabase
from ultimate_jobs.process import log
from ultimate_jobs.process.cancel import refuse_if_cancelled

DEFAULT_TTL = timedelta(days=7)
MAX_EVENT_NAME_CHARS = 200


def publish_event(
    name: str,
    payload: object,
    *,
    correlation_key: str | None = None,
    ttl: Duration = DEFAULT_TTL,
) -> int:
    """Publish an event for runs that wait for it, now or later.

    Inside a transaction the event is part of it: no commit, no event. Runs that wait for it are
    due as soon as it commits; a run that calls its next step after that and then waits does not
    see it.

    Args:
        name: what happened, for example ``"order.shipped"``.
        payload: a value with a JSON form; the wait's schema reads it.
        correlation_key: which one it happened to; a wait with ``match`` takes only its own.
        ttl: how long the event can be found.

    Returns:
        How many suspended runs wait for it now.

    Raises:
        EventNotPublishable: the name, key, payload or ``ttl`` cannot be; nothing was written.
        OutboxWrongDatabase: the open transaction is on another database.
        DriverUnavailable: the database did not answer.

    """
    refuse_if_cancelled()
    driver = get_driver()
    if driver.outbox.in_foreign_transaction():
        raise OutboxWrongDatabase("The open transaction is on another database than the events'.")
    event = NewEvent(
        id=new_id(),
        name=_label("The name", name),
        payload=_payload(payload),
        correlation_key=None if correlation_key is None else _label("The key", correlation_key),
        ttl=_ttl(ttl),
    )
    try:
        woken = driver.events.publish(event)
    except Unreachable as error:
        raise DriverUnavailable("The database that holds the jobs did not answer.") from error
    log.event(logging.DEBUG, "jobs.event.published", id=event.id, name=name, waiting=woken)
    return woken


async def apublish_event(
    name: str,
    payload: object,
    *,
    correlation_key: str | None = None,
    ttl: Duration = DEFAULT_TTL,
) -> int:
    """Publish from async code, on the thread that holds Django's connections."""
    publish = sync_to_async(publish_event)
    return await publish(name, payload, correlation_key=correlation_key, ttl=ttl)


def _label(what: str, given: object) -> str:
    if not isinstance(given, str) or not 1 <= len(given) <= MAX_EVENT_NAME_CHARS:
        raise EventNotPublishable(
            f"{what} of an event is text of 1 to {MAX_EVENT_NAME_CHARS} characters."
        )
    _payload(given)
    return given


def _payload(value: object) -> str:
    try:
        return dumps(canonical(value))
    except NotStorable as error:
        raise EventNotPublishable(f"The event cannot be stored: {error}") from None


def _ttl(given: Duration) -> timedelta:
    try:
        return duration(given)
    except ValueError as error:
        raise EventNotPublishable(f"ttl {error}.") from None
