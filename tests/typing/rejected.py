"""What a type checker must reject: each marked line is an error. Nothing here is run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from ultimate_jobs import (
    NO_TENANT,
    Concurrency,
    Enqueued,
    Job,
    RateLimit,
    Retry,
    Run,
    Settled,
    job,
    task,
)

if TYPE_CHECKING:

    @dataclass(frozen=True)
    class Checkout:
        order_id: int

    @dataclass(frozen=True)
    class Mail:
        to: str

    def key(checkout: Checkout) -> str:
        return str(checkout.order_id)

    # Declarations

    job(input=Checkout, tenant=NO_TENANT, retry=Retry())  # type: ignore[call-overload]
    job(input=Checkout, idempotency_key=key, retry=Retry())  # type: ignore[call-overload]
    job(input=Checkout, tenant=NO_TENANT, idempotency_key=key)  # type: ignore[call-overload]
    job(tenant=NO_TENANT, idempotency_key=key, retry=Retry())  # type: ignore[call-overload]
    job(input=Checkout, tenant=NO_TENANT, idempotency_key="checkout", retry=Retry())  # type: ignore[call-overload]
    job(input=Checkout, tenant=None, idempotency_key=key, retry=Retry())  # type: ignore[call-overload]
    job(input=Checkout, tenant="acme", idempotency_key=key, retry=Retry())  # type: ignore[call-overload]
    job(input=Checkout, tenant=NO_TENANT, idempotency_key=lambda i: i.no_such_field, retry=Retry())  # type: ignore[attr-defined]
    job(input=Checkout, tenant=NO_TENANT, idempotency_key=key, retry=3)  # type: ignore[call-overload]
    job(input=Checkout, tenant=NO_TENANT, idempotency_key=key, retry=Retry(), priority=3)  # type: ignore[call-overload]
    job(input=Checkout, tenant=NO_TENANT, idempotency_key=key, retry=Retry(), concurrency="2")  # type: ignore[call-overload]
    Retry(attempts="3")  # type: ignore[arg-type]
    Retry(backoff="quadratic")  # type: ignore[arg-type]
    Concurrency(key=key, limit=1, when_busy="drop")  # type: ignore[arg-type]
    RateLimit("gateway", limit=1, window="1m", scope="fleet")  # type: ignore[arg-type]
    RateLimit("gateway", limit="1", window="1m", scope="shared")  # type: ignore[arg-type]
    RateLimit("gateway", limit=1, scope="shared")  # type: ignore[call-arg]

    def told(ended: Settled[Mail]) -> None: ...

    job(input=Checkout, tenant=NO_TENANT, idempotency_key=key, retry=Retry(), on_settled=told)  # type: ignore[arg-type]

    # Bodies

    @job(input=Checkout, tenant=NO_TENANT, idempotency_key=key, retry=Retry())  # type: ignore[arg-type]
    def of_another_input(run: Run[Mail]) -> None: ...

    @job(input=Checkout, tenant=NO_TENANT, idempotency_key=key, retry=Retry())  # type: ignore[arg-type]
    def of_the_input_itself(run: Checkout) -> None: ...

    @job(input=Checkout, tenant=NO_TENANT, idempotency_key=key, retry=Retry())  # type: ignore[arg-type]
    def of_nothing() -> None: ...

    # Handles

    @job(input=Checkout, tenant=NO_TENANT, idempotency_key=key, retry=Retry())
    def checkout(run: Run[Checkout]) -> int:
        assert run.input.no_such_field  # type: ignore[attr-defined]
        run.attempt = 2  # type: ignore[misc]
        return run.input.order_id

    checkout(Checkout(1))  # type: ignore[operator]
    checkout.enqueue(Mail("a"))  # type: ignore[arg-type]
    checkout.enqueue({"order_id": 1})  # type: ignore[arg-type]
    checkout.enqueue()  # type: ignore[call-arg]
    checkout.enqueue(Checkout(1), 5)  # type: ignore[call-arg]
    checkout.enqueue(Checkout(1), prioritty=1)  # type: ignore[call-arg]
    checkout.enqueue(Checkout(1), on_conflict="ignore")  # type: ignore[arg-type]
    checkout.enqueue(Checkout(1), delay=None, run_at="2031-01-01")  # type: ignore[arg-type]
    checkout.enqueue_many(Checkout(1))  # type: ignore[arg-type]
    checkout.enqueue_many([Mail("a")])  # type: ignore[list-item]
    checkout.enqueue_as("u-1", Checkout(1))  # type: ignore[arg-type]
    checkout.enqueue_as(None, Checkout(1), tenant="t")  # type: ignore[call-arg]
    checkout.queue = "other"  # type: ignore[misc]
    answer: list[Enqueued] = checkout.enqueue(Checkout(1))  # type: ignore[assignment]
    checkout.enqueue(Checkout(1)).deduped = True  # type: ignore[misc]
    as_mail: Job[Mail, int] = checkout  # type: ignore[assignment]

    async def asynchronous() -> None:
        checkout.aenqueue(Checkout(1))  # type: ignore[unused-coroutine]
        await checkout.aenqueue(Mail("a"))  # type: ignore[arg-type]
        await checkout.aenqueue(Checkout(1), prioritty=1)  # type: ignore[call-arg]

    # Tasks

    def no_entries(occurrence: datetime) -> list[Checkout]: ...

    def of_nothing_at_all() -> list[tuple[Job[Checkout, int], Checkout]]: ...

    task(cron="0 2 * * *")  # type: ignore[call-overload]
    task(tz="UTC")  # type: ignore[call-overload]
    task(cron="0 2 * * *", tz=None)  # type: ignore[call-overload]
    task(cron="0 2 * * *", tz="UTC", catch_up="all")  # type: ignore[call-overload]
    task(cron="0 2 * * *", tz="UTC", max_catch_up="3")  # type: ignore[call-overload]
    task(cron="0 2 * * *", tz="UTC", retry=Retry())  # type: ignore[call-overload]
    task(cron="0 2 * * *", tz="UTC", enqueue=no_entries)  # type: ignore[arg-type]
    task(cron="0 2 * * *", tz="UTC")(no_entries)  # type: ignore[arg-type]
    task(cron="0 2 * * *", tz="UTC")(of_nothing_at_all)  # type: ignore[arg-type]
    nightly = task(cron="0 2 * * *", tz="UTC", enqueue=lambda occurrence: [])
    nightly(1)  # type: ignore[operator]
    nightly.next_run("2031-01-01")  # type: ignore[arg-type]
    nightly.catch_up = "skip"  # type: ignore[misc]
