"""What a type checker must infer: nothing here is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict, assert_type
from uuid import UUID

import msgspec
import pydantic

from ultimate_jobs import (
    NO_TENANT,
    Actor,
    CancelToken,
    Concurrency,
    Ending,
    Enqueued,
    Job,
    RateLimit,
    Retry,
    Run,
    Settled,
    Task,
    job,
    task,
)
from ultimate_jobs.core.jsonform import JSONValue

if TYPE_CHECKING:

    @dataclass(frozen=True)
    class Checkout:
        order_id: int
        org: str

    class Mail(TypedDict):
        to: str

    class Point(msgspec.Struct):
        x: int

    class Parcel(pydantic.BaseModel):
        number: str

    @dataclass
    class Receipt:
        total: int

    def told(ended: Settled[Checkout]) -> None:
        assert_type(ended.outcome, Ending)
        assert_type(ended.input, Checkout | None)
        assert_type(ended.result, JSONValue)
        assert_type(ended.signal, CancelToken)

    @job(
        input=Checkout,
        tenant=lambda i: i.org,
        idempotency_key=lambda i: f"checkout:{i.order_id}",
        retry=Retry(attempts=3, backoff="exponential", delay="1s", max_delay=60),
        name="shop.checkout",
        queue="mail",
        concurrency=Concurrency(key=lambda i: i.org, limit=2, when_busy="fail"),
        timeout=timedelta(minutes=1),
        on_settled=told,
        on_settled_timeout="5s",
    )
    def checkout(run: Run[Checkout]) -> Receipt:
        assert_type(run, Run[Checkout])
        assert_type(run.input, Checkout)
        assert_type(run.attempt, int)
        assert_type(run.job_id, UUID)
        assert_type(run.final_attempt, bool)
        assert_type(run.signal, CancelToken)
        assert_type(run.tenant, str | None)
        run.progress(1, 10, "note")
        return Receipt(1)

    @job(input=Mail, tenant=NO_TENANT, idempotency_key=lambda i: i["to"], retry=Retry())
    def send(run: Run[Mail]) -> None:
        assert_type(run.input, Mail)

    @job(input=Point, tenant=NO_TENANT, idempotency_key=lambda i: str(i.x), retry=Retry())
    def plot(run: Run[Point]) -> int:
        return run.input.x

    @job(input=Parcel, tenant=NO_TENANT, idempotency_key=lambda i: i.number, retry=Retry())
    def deliver(run: Run[Parcel]) -> str:
        return run.input.number

    class Upper:
        def parse(self, raw: JSONValue) -> str:
            return str(raw).upper()

        def dump(self, value: str) -> JSONValue:
            return value

        def json_schema(self) -> dict[str, object]:
            return {}

    @job(input=Upper(), tenant=NO_TENANT, idempotency_key=lambda i: i.lower(), retry=Retry())
    def shout(run: Run[str]) -> None:
        assert_type(run.input, str)

    assert_type(checkout, Job[Checkout, Receipt])
    assert_type(send, Job[Mail, None])
    assert_type(plot, Job[Point, int])
    assert_type(deliver, Job[Parcel, str])
    assert_type(shout, Job[str, None])

    queued = checkout.enqueue(Checkout(1, "acme"), delay="1h", priority=2, queue="mail")
    assert_type(queued, Enqueued)
    assert_type(queued.id, UUID)
    assert_type(queued.run_id, UUID)
    assert_type(queued.deduped, bool)
    assert_type(send.enqueue({"to": "a"}, run_id="x", tenant="t", outbox=False), Enqueued)
    assert_type(checkout.enqueue_many(Checkout(n, "acme") for n in range(3)), list[Enqueued])
    assert_type(checkout.enqueue_as(Actor(org="acme"), Checkout(1, "acme")), Enqueued)
    assert_type(checkout.enqueue_as(None, Checkout(1, "acme"), on_conflict="error"), Enqueued)
    assert_type(checkout.parse({"order_id": 1}), Checkout)
    assert_type(checkout.idempotency_key_for(Checkout(1, "acme")), str)
    assert_type(checkout.concurrency_key_for(Checkout(1, "acme")), str | None)
    assert_type(checkout.retry, Retry)
    assert_type(checkout.timeout, timedelta | None)

    async def asynchronous() -> None:
        assert_type(await checkout.aenqueue(Checkout(1, "acme"), delay=3), Enqueued)
        assert_type(await checkout.aenqueue_many([Checkout(1, "acme")]), list[Enqueued])
        assert_type(await checkout.aenqueue_as(None, Checkout(1, "acme")), Enqueued)

    def generic(some: Job[Checkout, Receipt], make: Callable[[], Checkout]) -> Enqueued:
        return some.enqueue(make())

    generic(checkout, lambda: Checkout(1, "acme"))

    gateway = RateLimit("gateway", limit=100, window="1m", scope="shared")
    gateway.take("acme", cost=2)
    RateLimit("mails", limit=0.5e3, window=60, scope="process").take()

    async def limited() -> None:
        await gateway.atake("acme")

    @task(cron="0 2 * * *", tz="Europe/Berlin")
    def nightly(occurrence: datetime) -> list[tuple[Job[Checkout, Receipt], Checkout]]:
        return [(checkout, Checkout(1, "acme"))]

    @task(cron="0 2 * * *", tz="UTC", name="shop.hourly", catch_up="run-all", max_catch_up=3)
    def hourly(occurrence: datetime) -> Iterator[tuple[Job[Any, Any], Any]]:
        yield checkout, Checkout(1, "acme")
        yield send, {"to": "a"}

    weekly = task(
        cron="0 2 * * mon",
        tz="UTC",
        name="shop.weekly",
        enqueue=lambda occurrence: [(checkout, Checkout(1, "acme")), (send, {"to": "a"})],
    )
    assert_type(nightly, Task)
    assert_type(hourly, Task)
    assert_type(weekly, Task)
    assert_type(weekly.next_run(datetime.now(UTC)), datetime)  # noqa: TID251
    assert_type(weekly.enqueue(), list[Enqueued])
    assert_type(weekly.entries(), Sequence[tuple[Job[Any, Any], Any]])
