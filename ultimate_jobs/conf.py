"""``settings.ULTIMATE_JOBS``, validated into one frozen object."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, cast, get_args

from django.conf import settings as django_settings
from django.core.signals import setting_changed

from ultimate_jobs.core.durations import duration
from ultimate_jobs.core.limiter import NO_LIMITS, Limits, mistakes_in
from ultimate_jobs.core.spec import checked_name
from ultimate_jobs.errors import ConfigInvalid, DeclarationInvalid

OutboxMode = Literal["auto", "required"]
SETTING = "ULTIMATE_JOBS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an installation can set; every field is a key of ``ULTIMATE_JOBS``, in capitals.

    Attributes:
        database: alias of the database that holds the jobs and the outbox.
        outbox: ``auto`` publishes at once outside a transaction, ``required`` refuses there.
        queues: queues a worker serves when ``--queues`` names none.
        concurrency: bodies a worker process runs at once.
        queue_concurrency: for some queues, how many of those may be theirs.
        prefetch: the most runs a worker process takes before it has a body for them.
        visibility_timeout: how long a claim holds without a sign of life.
        heartbeat_interval: time between signs of life; a third of the above by default.
        poll_interval: wait of a worker between passes while there is work.
        idle_poll_max: longest wait of an idle worker or relay.
        idle_poll_max_wake: the same, while it is proven that word of new work arrives.
        wake: listen for word of new work.
        wake_database: alias of a direct connection to ``database``, for listening alone.
        relay_interval: wait of the relay between passes while there is work.
        relay_batch_size: staged rows one pass publishes.
        drain_timeout: time that held bodies get to stop after SIGTERM.
        max_input_bytes: largest stored form of an input.
        prepared_statements: whether workers, relays and enqueues prepare theirs on the server,
            where a connection reaches it directly.
        limits: caps of a worker process on tenants and queues; none by default.
        done_retention: how long jobs that are done are kept, and receipts of the outbox.
        dead_retention: how long dead, failed and cancelled jobs are kept.
        maintenance_queue: queue of this package's own jobs.

    """

    database: str = "default"
    outbox: OutboxMode = "auto"
    queues: tuple[str, ...] = ("default",)
    concurrency: int = 8
    queue_concurrency: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    prefetch: int = 1000
    visibility_timeout: timedelta = timedelta(seconds=30)
    heartbeat_interval: timedelta | None = None
    poll_interval: timedelta = timedelta(milliseconds=250)
    idle_poll_max: timedelta = timedelta(seconds=2)
    idle_poll_max_wake: timedelta = timedelta(seconds=5)
    wake: bool = True
    wake_database: str | None = None
    relay_interval: timedelta = timedelta(milliseconds=200)
    relay_batch_size: int = 500
    drain_timeout: timedelta = timedelta(seconds=25)
    max_input_bytes: int = 4 * 1024 * 1024
    prepared_statements: bool = True
    limits: Limits = NO_LIMITS
    done_retention: timedelta = timedelta(days=14)
    dead_retention: timedelta = timedelta(days=90)
    maintenance_queue: str = "default"

    @property
    def beat_every(self) -> timedelta:
        """Time between two signs of life."""
        return self.heartbeat_interval or self.visibility_timeout / 3


def read(declared: Mapping[str, Any]) -> tuple[Settings, list[str]]:
    """Read the setting; the second answer lists every mistake in it, in words."""
    known = {field.name.upper(): field.name for field in fields(Settings)}
    values: dict[str, Any] = {}
    mistakes: list[str] = []
    for key, value in declared.items():
        if key not in known:
            mistakes.append(_unknown(key, known))
            continue
        try:
            values[known[key]] = _READERS[known[key]](value)
        except (ValueError, DeclarationInvalid) as error:
            why = error.cause if isinstance(error, DeclarationInvalid) else error
            mistakes.append(f"{SETTING}['{key}'] {why}")
    found = Settings(**values)
    if found.beat_every >= found.visibility_timeout:
        mistakes.append(f"{SETTING}['HEARTBEAT_INTERVAL'] must be shorter than VISIBILITY_TIMEOUT.")
    return found, mistakes


@cache
def get_settings() -> Settings:
    """Answer the settings in force.

    Raises:
        ConfigInvalid: they hold a mistake; the message lists all of them.

    """
    found, mistakes = read(declared_settings())
    if mistakes:
        raise ConfigInvalid(" ".join(mistakes))
    return found


def declared_settings() -> Mapping[str, Any]:
    """Answer the setting as the project wrote it.

    Raises:
        ConfigInvalid: it is no mapping.

    """
    declared = getattr(django_settings, SETTING, {})
    if not isinstance(declared, Mapping):
        raise ConfigInvalid(f"{SETTING} must be a dict.")
    return declared


def _unknown(key: object, known: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(str(key), known, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    return f"{SETTING} has an unknown key '{key}'{hint}"


def _whole(least: int, most: int) -> Callable[[Any], int]:
    def read_whole(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"must be a whole number from {least:,} to {most:,}.")
        return value

    return read_whole


def _yes_or_no(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError("must be True or False.")
    return value


def _span(value: Any) -> timedelta:
    try:
        return duration(value)
    except ValueError as error:
        raise ValueError(f"{error}.") from None


def _span_or_none(value: Any) -> timedelta | None:
    return None if value is None else _span(value)


def _database(value: Any) -> str:
    if not isinstance(value, str) or value not in django_settings.DATABASES:
        raise ValueError("names no entry of DATABASES.")
    return value


def _database_or_none(value: Any) -> str | None:
    return None if value is None else _database(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be True or False.")
    return value


def _outbox(value: Any) -> OutboxMode:
    if value not in get_args(OutboxMode):
        raise ValueError("must be 'auto' or 'required'.")
    return cast("OutboxMode", value)


def _queue(value: Any) -> str:
    return checked_name("a queue name", value)


def _queues(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, list | tuple | set | frozenset):
        raise ValueError("must be a list of queue names.")
    if not value:
        raise ValueError("must name at least one queue.")
    return tuple(dict.fromkeys(checked_name("a queue name", queue) for queue in value))


def _caps(value: Any) -> Mapping[str, int]:
    if not isinstance(value, Mapping):
        raise ValueError("must be a dict of queue names and whole numbers.")
    of_queue = _whole(1, 1_000)
    return MappingProxyType(
        {checked_name("a queue name", queue): of_queue(cap) for queue, cap in value.items()}
    )


def _limits(value: Any) -> Limits:
    if not isinstance(value, Mapping):
        raise ValueError("must be a dict of caps.")
    known = {field.name for field in fields(Limits)}
    unknown = [f"has an unknown key '{key}'." for key in value if key not in known]
    given = {key: cap for key, cap in value.items() if key in known}
    rate = given.get("rate_per_tenant")
    if isinstance(rate, str):
        given["rate_per_tenant"] = _rate(rate)
    mistakes = unknown + mistakes_in(**given)
    if mistakes:
        raise ValueError(" ".join(mistakes))
    return Limits(**given)


def _rate(text: str) -> tuple[object, object]:
    limit, _, window = text.partition("/")
    return (int(limit) if limit.isascii() and limit.isdigit() else limit), window


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "database": _database,
    "outbox": _outbox,
    "queues": _queues,
    "concurrency": _whole(1, 1_000),
    "queue_concurrency": _caps,
    "prefetch": _whole(0, 5_000),
    "visibility_timeout": _span,
    "heartbeat_interval": _span_or_none,
    "poll_interval": _span,
    "idle_poll_max": _span,
    "idle_poll_max_wake": _span,
    "wake": _flag,
    "wake_database": _database_or_none,
    "relay_interval": _span,
    "relay_batch_size": _whole(1, 10_000),
    "drain_timeout": _span,
    "prepared_statements": _yes_or_no,
    "max_input_bytes": _whole(1_024, 64 * 1024 * 1024),
    "limits": _limits,
    "done_retention": _span,
    "dead_retention": _span,
    "maintenance_queue": _queue,
}


def _forget(*, setting: str, **kwargs: object) -> None:
    if setting in {SETTING, "DATABASES"}:
        get_settings.cache_clear()


setting_changed.connect(_forget)
