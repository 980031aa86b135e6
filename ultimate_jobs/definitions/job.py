"""``@job``: the declaration, and the handle it answers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from datetime import datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar, Unpack, cast, final, overload
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db.models import Model

from ultimate_jobs.core import keys
from ultimate_jobs.core.durations import Duration
from ultimate_jobs.core.jsonform import JSONValue
from ultimate_jobs.core.records import Enqueued
from ultimate_jobs.core.retry import Retry
from ultimate_jobs.core.schema import Schema, schema_for
from ultimate_jobs.core.spec import (
    DEFAULT_EVENT_POLL,
    DEFAULT_ON_SETTLED_TIMEOUT,
    Concurrency,
    JobSpec,
    NoTenant,
    WhenBusy,
    checked_body,
    checked_concurrency,
    checked_name,
    checked_span,
)
from ultimate_jobs.definitions.async_context import AsyncRun
from ultimate_jobs.definitions.context import Run, Settled
from ultimate_jobs.definitions.registry import default_name, registry
from ultimate_jobs.enqueue import facade
from ultimate_jobs.enqueue.options import (
    EnqueueAsOptions,
    EnqueueOptions,
    OnConflict,
    Options,
)
from ultimate_jobs.errors import DeclarationInvalid, IdempotencyRequired, TenantRequired
from ultimate_jobs.tenancy import Actor

I = TypeVar("I")
R = TypeVar("R")


@final
class Job(Generic[I, R]):
    """A declared job. Only ``@job`` makes one; every operation on it is a method here.

    Calling it is not one of them: the worker runs bodies, because it owns the attempt, the claim
    and the deadline.
    """

    kind = "job"

    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self.__doc__ = spec.body.__doc__
        self.__name__ = spec.body.__name__
        self.__qualname__ = spec.body.__qualname__
        self.__module__ = spec.body.__module__

    def __repr__(self) -> str:
        return f"<job {self.name}>"

    @property
    def name(self) -> str:
        """The durable name: rows carry it."""
        return self.spec.name

    @property
    def queue(self) -> str:
        """The pool that runs it, unless an enqueue names another."""
        return self.spec.queue

    @property
    def retry(self) -> Retry:
        """The retry policy, defaults filled in."""
        return self.spec.retry

    @property
    def concurrency(self) -> int | None:
        """The cap on simultaneous runs, however it was declared."""
        return self.spec.concurrency

    @property
    def when_busy(self) -> WhenBusy | None:
        """What a run does at a full key; there exactly when the cap is keyed."""
        return self.spec.when_busy

    @property
    def timeout(self) -> timedelta | None:
        """The ceiling of one attempt."""
        return self.spec.timeout

    @property
    def step_timeout(self) -> timedelta | None:
        """The ceiling of one step."""
        return self.spec.step_timeout

    @property
    def event_poll(self) -> timedelta:
        """How often a waiting run looks by itself."""
        return self.spec.event_poll

    @property
    def compensates(self) -> bool:
        """Whether steps have compensations."""
        return self.spec.compensates

    @property
    def on_settled_timeout(self) -> timedelta:
        """The ceiling of the ending hook, all its tries together."""
        return self.spec.on_settled_timeout

    def enqueue(
        self,
        input: I,
        *,
        delay: Duration | None = None,
        run_at: datetime | None = None,
        priority: int = 0,
        queue: str | None = None,
        run_id: UUID | str | None = None,
        tenant: str | None = None,
        enqueued_by: str | None = None,
        traceparent: str | None = None,
        related: Model | None = None,
        outbox: bool = True,
        on_conflict: OnConflict = "dedupe",
        using: str | None = None,
    ) -> Enqueued:
        """Enqueue one input.

        Inside a transaction the job is a row in it: rolled back, it never existed; committed, it
        will run. Outside one it is published at once. When a live job holds the input's
        idempotency key, nothing is written and the answer names that job.

        Args:
            input: the input, of the declared type.
            delay: how long to wait, counted by the database's clock.
            run_at: the instant before which it does not run; instead of ``delay``.
            priority: higher goes first; 0 by default.
            queue: another queue than the declared one.
            run_id: a lowercase UUID to name the run with.
            tenant: the enqueuer's tenant; the actor's at work by default.
            enqueued_by: who enqueued it, for the record; the actor's id by default.
            traceparent: W3C trace context to link the run to.
            related: a saved object that the job is about; operators find the job by it.
            outbox: ``False`` publishes at once on a connection of its own, outside the caller's
                transaction.
            on_conflict: ``"error"`` raises when a live job holds the key.
            using: the alias of the database whose transaction the enqueue must ride; it must be
                the one that holds the outbox.

        Raises:
            RefusedError: the input or an option is wrong; nothing was written and the caller's
                transaction is usable.
            LiveKeyTaken: ``on_conflict="error"`` met a live job.
            DriverUnavailable: the database did not answer.

        """
        return facade.enqueue(
            self.spec,
            input,
            Options(
                delay=delay,
                run_at=run_at,
                priority=priority,
                queue=queue,
                run_id=run_id,
                tenant=tenant,
                enqueued_by=enqueued_by,
                traceparent=traceparent,
                related=related,
                outbox=outbox,
                on_conflict=on_conflict,
                using=using,
            ),
        )

    def enqueue_many(
        self,
        inputs: Iterable[I],
        *,
        delay: Duration | None = None,
        run_at: datetime | None = None,
        priority: int = 0,
        queue: str | None = None,
        run_id: UUID | str | None = None,
        tenant: str | None = None,
        enqueued_by: str | None = None,
        traceparent: str | None = None,
        related: Model | None = None,
        outbox: bool = True,
        on_conflict: OnConflict = "dedupe",
        using: str | None = None,
    ) -> list[Enqueued]:
        """Enqueue up to 10,000 inputs, one statement per 1,000; the answers parallel the inputs.

        Inputs with one key share one job; the later ones are answered as deduplicated. Inside a
        transaction all are staged or none; outside one every 1,000 are one unit.

        Args: as ``enqueue``, for all inputs alike; ``run_id`` and ``on_conflict="error"`` make no
        sense for a batch and are refused.

        Raises:
            EnqueueBatchTooLarge: more than 10,000 inputs.
            RefusedError, DriverUnavailable: as ``enqueue``; refusals come before the first write.

        """
        return facade.enqueue_many(
            self.spec,
            list(inputs),
            Options(
                delay=delay,
                run_at=run_at,
                priority=priority,
                queue=queue,
                run_id=run_id,
                tenant=tenant,
                enqueued_by=enqueued_by,
                traceparent=traceparent,
                related=related,
                outbox=outbox,
                on_conflict=on_conflict,
                using=using,
            ),
        )

    def enqueue_as(
        self, actor: Actor | None, input: I, **options: Unpack[EnqueueAsOptions]
    ) -> Enqueued:
        """Enqueue on behalf of ``actor``: its tenant and its id go on the row.

        The body still runs with the worker's authority. No actor, or one without a tenant, puts
        no tenant on the row.

        Args:
            actor: who it is for.
            input: the input, of the declared type.
            options: those of ``enqueue``, without ``tenant`` and ``enqueued_by``.

        Raises:
            TenantMismatch: the actor belongs to another tenant than the input.
            RefusedError, DriverUnavailable: as ``enqueue``.

        """
        return facade.enqueue(self.spec, input, Options(**options, actor=actor, as_actor=True))

    async def aenqueue(self, input: I, **options: Unpack[EnqueueOptions]) -> Enqueued:
        """Enqueue from async code: ``enqueue`` on the thread that holds Django's connections."""
        return await sync_to_async(self.enqueue)(input, **options)

    async def aenqueue_many(
        self, inputs: Iterable[I], **options: Unpack[EnqueueOptions]
    ) -> list[Enqueued]:
        """Enqueue a batch from async code; see ``aenqueue``."""
        return await sync_to_async(self.enqueue_many)(inputs, **options)

    async def aenqueue_as(
        self, actor: Actor | None, input: I, **options: Unpack[EnqueueAsOptions]
    ) -> Enqueued:
        """Enqueue on behalf of an actor from async code; see ``aenqueue``."""
        return await sync_to_async(self.enqueue_as)(actor, input, **options)

    def parse(self, raw: JSONValue) -> I:
        """Turn a stored payload into an input.

        Raises:
            InputInvalid: it does not fit the declared type.

        """
        return cast("I", self.spec.schema.parse(raw))

    def idempotency_key_for(self, input: I) -> str:
        """Answer the key of an input.

        Raises:
            InvariantError: it is empty or not storable text.

        """
        return keys.idempotency_key(self.name, self.spec.idempotency_key, input)

    def concurrency_key_for(self, input: I) -> str | None:
        """Answer the concurrency key of an input; ``None`` without a keyed cap.

        Raises:
            DeclarationInvalid: the key is empty, no text, or longer than 200 characters.

        """
        if self.spec.concurrency_key is None:
            return None
        return keys.concurrency_key(self.name, self.spec.concurrency_key, input)

    def describe(self) -> dict[str, Any]:
        """Answer the manifest entry: plain values, no application data, never an error.

        ``steps`` is always empty: their names exist only at run time.
        """
        cap = self.concurrency
        return {
            "kind": self.kind,
            "name": self.name,
            "input": self._json_schema(),
            "queue": self.queue,
            "retry": {"attempts": self.retry.attempts, "backoff": self.retry.backoff},
            "steps": [],
            "idempotent": True,
            "concurrency": None
            if cap is None
            else {"limit": cap, "keyed": self.when_busy is not None, "when_busy": self.when_busy},
        }

    def _json_schema(self) -> dict[str, Any]:
        try:
            return self.spec.schema.json_schema()
        except Exception:  # noqa: BLE001 - a schema that cannot describe itself is described loosely
            return {"type": "object"}


class Declare(Protocol[I]):
    """The decorator that ``job(...)`` answers."""

    @overload
    def __call__(self, body: Callable[[AsyncRun[I]], Coroutine[Any, Any, R]], /) -> Job[I, R]: ...

    @overload
    def __call__(self, body: Callable[[Run[I]], R], /) -> Job[I, R]: ...


class _Missing:
    """The default of what has no default."""


_MISSING = _Missing()


@overload
def job(
    *,
    input: type[I],
    tenant: Callable[[I], str] | NoTenant,
    idempotency_key: Callable[[I], str],
    retry: Retry,
    name: str | None = None,
    queue: str = "default",
    concurrency: int | Concurrency[I] | None = None,
    timeout: Duration | None = None,
    step_timeout: Duration | None = None,
    event_poll: Duration = DEFAULT_EVENT_POLL,
    compensates: bool = False,
    on_settled: Callable[[Settled[I]], None] | None = None,
    on_settled_timeout: Duration = DEFAULT_ON_SETTLED_TIMEOUT,
) -> Declare[I]: ...


@overload
def job(
    *,
    input: Schema[I],
    tenant: Callable[[I], str] | NoTenant,
    idempotency_key: Callable[[I], str],
    retry: Retry,
    name: str | None = None,
    queue: str = "default",
    concurrency: int | Concurrency[I] | None = None,
    timeout: Duration | None = None,
    step_timeout: Duration | None = None,
    event_poll: Duration = DEFAULT_EVENT_POLL,
    compensates: bool = False,
    on_settled: Callable[[Settled[I]], None] | None = None,
    on_settled_timeout: Duration = DEFAULT_ON_SETTLED_TIMEOUT,
) -> Declare[I]: ...


def job(
    *,
    input: Any = _MISSING,
    tenant: Any = _MISSING,
    idempotency_key: Any = _MISSING,
    retry: Any = _MISSING,
    name: str | None = None,
    queue: str = "default",
    concurrency: int | Concurrency[Any] | None = None,
    timeout: Duration | None = None,
    step_timeout: Duration | None = None,
    event_poll: Duration = DEFAULT_EVENT_POLL,
    compensates: bool = False,
    on_settled: Callable[[Settled[Any]], None] | None = None,
    on_settled_timeout: Duration = DEFAULT_ON_SETTLED_TIMEOUT,
) -> Any:
    """Declare a job over the function below.

    The body may run more than once: keep durable state in tables, pass ids as input, and give
    every effect outside the database a key of its own.

    Args:
        input: the type of the input: a dataclass, TypedDict, msgspec Struct, pydantic model, or a
            ``Schema`` of your own.
        tenant: the tenant an input belongs to, or ``NO_TENANT``.
        idempotency_key: a key computed from the input alone; no two live jobs share it.
        retry: how often and when to try again.
        name: the durable name that rows carry; ``<app_label>.<function>`` by default. Give one
            before renaming a function whose jobs are queued.
        queue: the pool that runs it.
        concurrency: most simultaneous runs in the fleet, or of one key.
        timeout: the ceiling of one attempt: its signal is aborted, then the attempt fails.
        step_timeout: the ceiling of one step, unless the step names another.
        event_poll: how often a run that waits for an event looks by itself, should a wake be lost.
        compensates: whether steps have compensations; two more starts are kept to run them in.
        on_settled: called after the job ended for good, at most once, up to three tries.
        on_settled_timeout: the ceiling of that hook.

    Raises:
        DeclarationError: a field is missing, or has a value that cannot be meant.

    """
    _refuse_missing(
        {"input": input, "tenant": tenant, "idempotency_key": idempotency_key, "retry": retry}
    )

    def declare(body: Any) -> Job[Any, Any]:
        durable = checked_name("name", default_name("@job", body) if name is None else name)
        limit, key, when_busy = checked_concurrency(durable, concurrency)
        declared = Job[Any, Any](
            JobSpec(
                name=durable,
                queue=checked_name(f"'{durable}': queue", queue),
                schema=schema_for(input),
                tenant=_checked_tenant(durable, tenant),
                idempotency_key=_checked_function(durable, "idempotency_key", idempotency_key),
                retry=_checked_retry(durable, retry),
                body=checked_body(durable, body),
                concurrency=limit,
                concurrency_key=key,
                when_busy=when_busy,
                timeout=None if timeout is None else checked_span(durable, "timeout", timeout),
                step_timeout=None
                if step_timeout is None
                else checked_span(durable, "step_timeout", step_timeout),
                event_poll=checked_span(durable, "event_poll", event_poll),
                compensates=_checked_flag(durable, "compensates", compensates),
                on_settled=None
                if on_settled is None
                else _checked_function(durable, "on_settled", on_settled),
                on_settled_timeout=checked_span(durable, "on_settled_timeout", on_settled_timeout),
            )
        )
        registry.add(declared)
        return declared

    return declare


def _refuse_missing(required: dict[str, Any]) -> None:
    missing = [field for field, value in required.items() if value is _MISSING or value is None]
    if missing == ["idempotency_key"]:
        raise IdempotencyRequired("A job declares no idempotency_key.")
    if missing == ["tenant"]:
        raise TenantRequired("A job declares no tenant.")
    if missing:
        raise DeclarationInvalid(f"A job declares no {', no '.join(missing)}.")


def _checked_tenant(name: str, tenant: Any) -> Callable[[Any], str] | NoTenant:
    return tenant if isinstance(tenant, NoTenant) else _checked_function(name, "tenant", tenant)


def _checked_function(name: str, field: str, given: Any) -> Callable[[Any], Any]:
    if not callable(given):
        raise DeclarationInvalid(f"'{name}': {field} must be a function.")
    return cast("Callable[[Any], Any]", given)


def _checked_flag(name: str, field: str, given: Any) -> bool:
    if not isinstance(given, bool):
        raise DeclarationInvalid(f"'{name}': {field} must be True or False.")
    return given


def _checked_retry(name: str, given: Any) -> Retry:
    if not isinstance(given, Retry):
        raise DeclarationInvalid(f"'{name}': retry must be a Retry(...).")
    return given
