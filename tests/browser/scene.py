"""A month of a busy shop, as rows: what the pages of the admin look like on an ordinary bad day.

Everything is drawn from one seeded generator and laid out backwards from the database's clock, so that
two scenes differ in their instants alone.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.contrib.contenttypes.models import ContentType

from testproject.shop.models import Order
from tests.builders import sql
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.models import (
    Counter,
    Job,
    JobStep,
    Lease,
    OutboxEntry,
    Pause,
    SchedulerLeader,
    TaskState,
    Worker,
)

CHECKOUT, RECEIPT, STOCK, SEARCH = (
    "shop.checkout",
    "shop.send_receipt",
    "shop.sync_stock",
    "shop.index_product",
)
QUEUES = {CHECKOUT: "checkout", RECEIPT: "mail", STOCK: "default", SEARCH: "search"}
WORKERS = (
    "web-1:4711:6f2c9a",
    "web-1:4712:b81e04",
    "web-2:4698:03d7f5",
    "web-2:4699:e5a90b",
)
NIGHTLY = "shop.every_night"
CARRIER_DOWN = "ConnectionError: parcels.example: the connection was refused after {} ms"
ERRORS = {
    CHECKOUT: CARRIER_DOWN,
    RECEIPT: "RecipientRefused: mailbox of customer {} is full",
    STOCK: "UnknownProduct: the supplier does not know article {}",
}
STATES = {
    "ready": 64,
    "delayed": 31,
    "running": 11,
    "suspended": 42,
    "done": 180,
    "failed": 5,
    "cancelled": 9,
    "dead": 37,
}


@dataclass(frozen=True, slots=True)
class Scene:
    """What a test may want to open."""

    task: str
    """A task that was fired, and is paused."""
    standing_by: UUID
    """A job that stands by for a slot."""
    capped: UUID
    """A job that runs in a slot."""

    saga: UUID
    """A checkout that failed for good and was undone."""
    waiting: UUID
    """A checkout that waits for its parcel."""


def build() -> Scene:
    """Write the scene."""
    ((now,),) = sql("SELECT now()")
    luck = random.Random(7)  # noqa: S311 - a scene, not a secret
    Job.objects.bulk_create(_jobs(now, luck))
    saga, waiting = _checkout(now, 90_481), _checkout(now, 90_502)
    _undone(saga, now - timedelta(minutes=38))
    _travelling(waiting, now - timedelta(hours=2))
    OutboxEntry.objects.bulk_create(_staged(now, luck))
    Counter.objects.bulk_create(_counters(now, luck), batch_size=2_000)
    standing_by, capped = _capped(now)
    Worker.objects.bulk_create(_workers(now))
    TaskState.objects.bulk_create(_tasks(now))
    SchedulerLeader.objects.create(
        id=1,
        holder="web-1:4690:5d01c3",
        since=now - timedelta(hours=5),
        expires_at=now + timedelta(hours=1),
    )
    Pause.objects.create(
        kind="task",
        name=NIGHTLY,
        paused_at=now - timedelta(hours=3),
        paused_by="grace",
        reason="the books of last year are being closed",
    )
    Pause.objects.create(
        kind="queue",
        name="search",
        paused_at=now - timedelta(minutes=26),
        paused_by="grace",
        reason="the index is being rebuilt",
    )
    return Scene(
        task=NIGHTLY, standing_by=standing_by, capped=capped, saga=saga.id, waiting=waiting.id
    )


def _jobs(now: datetime, luck: random.Random) -> Iterator[Job]:
    number = 80_000
    for state, count in STATES.items():
        for _ in range(count):
            number += 1
            yield _job(now, luck, state, number)


def _job(now: datetime, luck: random.Random, state: str, number: int) -> Job:
    name = _name(luck, state)
    waited = timedelta(minutes=luck.uniform(0, 24) if state == "ready" else luck.uniform(1, 1400))
    created = now - waited
    ended = created + timedelta(seconds=luck.uniform(0.2, 40))
    waits = state in ("delayed", "suspended")
    running = {"claimed_by": luck.choice(WORKERS[:3]), "visible_at": now + timedelta(seconds=30)}
    return Job(
        id=new_id(),
        run_id=new_id(),
        name=name,
        queue=QUEUES[name],
        state=state,
        priority=luck.choice((0, 0, 0, 5)),
        input={"order_id": number, "reference": f"A-{number}", "amount": "24.90"},
        idempotency_key=f"{name.partition('.')[2]}:A-{number}",
        tenant_id=luck.choice(("acme", "globex", "initech")),
        enqueued_by="web",
        attempt=_attempts(luck, state),
        claim=1,
        last_error=ERRORS[name].format(luck.randrange(100, 9_999)) if state == "dead" else None,
        run_at=now + timedelta(minutes=luck.uniform(1, 90)) if waits else created,
        created_at=created,
        updated_at=min(ended, now),
        **(running if state == "running" else {}),
    )


def _name(luck: random.Random, state: str) -> str:
    if state == "suspended":
        return CHECKOUT
    if state == "dead":
        return luck.choices((CHECKOUT, RECEIPT, STOCK), (21, 11, 5))[0]
    if state == "ready":
        return luck.choices((CHECKOUT, RECEIPT, STOCK, SEARCH), (2, 3, 1, 8))[0]
    if state == "running":
        return luck.choice((CHECKOUT, RECEIPT, STOCK))
    return luck.choice((CHECKOUT, RECEIPT, STOCK, SEARCH))


def _attempts(luck: random.Random, state: str) -> int:
    if state in ("ready", "delayed"):
        return luck.choices((0, 1, 2), (12, 2, 1))[0]
    return 3 if state == "dead" else luck.choices((1, 2), (9, 1))[0]


# Two checkouts, step by step


def _checkout(now: datetime, number: int) -> Job:
    order = Order.objects.create(reference=f"A-{number}", amount=Decimal("129.00"), sku="teapot")
    return Job(
        id=new_id(),
        run_id=new_id(),
        name=CHECKOUT,
        queue="checkout",
        input={"order_id": order.pk, "reference": order.reference, "amount": "129.00"},
        idempotency_key=f"checkout:{order.reference}",
        tenant_id="acme",
        enqueued_by="ada",
        traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        related_type=ContentType.objects.get_for_model(Order),
        related_id=str(order.pk),
    )


Played = Sequence[tuple[str, str, float, float, dict[str, Any]]]


def _undone(job: Job, start: datetime) -> None:
    error = CARRIER_DOWN.format(4_012)
    _play(
        job,
        start,
        [
            ("accept", "completed", 0.1, 0.4, {"output": {"card": "card", "address": "1 Main St"}}),
            ("charge", "completed", 0.5, 2.6, {"output": "ch_58211", "attempts": 2}),
            ("reserve", "completed", 3.2, 0.3, {}),
            ("label", "completed", 3.6, 1.1, {"output": "JD01460000"}),
            ("invoice", "completed", 4.8, 0.7, {"output": {"number": "2031-0871"}}),
            ("ship", "failed", 5.6, 14.2, {"error": error, "attempts": 3}),
            ("unwinding", "completed", 19.9, 0.1, {}),
            ("compensate:invoice", "completed", 20.1, 0.8, {}),
            ("compensate:label", "completed", 21.0, 1.3, {}),
            ("compensate:reserve", "completed", 22.4, 0.4, {}),
            ("compensate:charge", "completed", 22.9, 3.1, {"output": "re_58211", "attempts": 2}),
            ("compensate:accept", "completed", 26.1, 0.3, {}),
        ],
    )
    trace = (
        'Traceback (most recent call last):\n  File "shop/jobs.py", line 92, in checkout\n'
        "    parcel = run.step(\n  "
        'File "shop/partners.py", line 48, in ship\n    raise ConnectionError(address)'
    )
    job.state, job.attempt, job.last_error = "dead", 3, f"{error}\n{trace}"
    job.created_at = job.run_at = start
    job.updated_at = start + timedelta(seconds=26.4)
    job.save(force_insert=True)


def _travelling(job: Job, start: datetime) -> None:
    _play(
        job,
        start,
        [
            ("accept", "completed", 2, 30, {"output": {"card": "card", "address": "1 Main St"}}),
            ("charge", "completed", 60, 400, {"output": "ch_58240", "attempts": 3}),
            ("reserve", "completed", 500, 20, {}),
            ("ship", "completed", 560, 340, {"output": "JD01460017", "attempts": 2}),
            ("patience", "completed", 920, 3_600, {}),
            ("nudge", "completed", 4_530, 30, {"output": False}),
            ("delivery", "waiting", 4_580, 0, {"event": "order.delivered", "match": "A-90502"}),
        ],
    )
    JobStep.objects.filter(run_id=job.run_id, name="delivery").update(
        wake_at=start + timedelta(hours=5), completed_at=None
    )
    job.state, job.attempt, job.claim = "suspended", 1, 4
    job.progress = {"done": 6, "total": 7, "note": "on its way"}
    job.created_at, job.run_at = start, start + timedelta(hours=5)
    job.updated_at = start + timedelta(seconds=4_580)
    job.save(force_insert=True)


def _play(job: Job, start: datetime, steps: Played) -> None:
    JobStep.objects.bulk_create(
        JobStep(
            **{
                "run_id": job.run_id,
                "job_id": job.id,
                "position": position,
                "name": name,
                "status": status,
                "attempts": 1,
                "started_at": start + timedelta(seconds=after),
                "completed_at": start + timedelta(seconds=after + took),
                "undoable": not name.startswith("compensate"),
                **more,
            }
        )
        for position, (name, status, after, took, more) in enumerate(steps)
    )


# Jobs that share a cap


def _capped(now: datetime) -> tuple[UUID, UUID]:
    """Write three jobs that one supplier takes one at a time; answer one that waits, and the one that runs."""
    lease_key = f"{STOCK}:teapots"
    ran, *waits = (
        Job(
            id=new_id(),
            run_id=new_id(),
            name=STOCK,
            queue="default",
            state="ready",
            blocked=True,
            lease_key=lease_key,
            input={"supplier": "teapots", "page": page},
            idempotency_key=f"sync_stock:teapots:{page}",
            tenant_id="acme",
            enqueued_by="web",
            created_at=now - timedelta(minutes=4),
            run_at=now - timedelta(minutes=4),
            updated_at=now - timedelta(minutes=4),
        )
        for page in range(3)
    )
    ran.state, ran.blocked, ran.attempt, ran.claim = "running", False, 1, 1
    ran.claimed_by, ran.visible_at = WORKERS[0], now + timedelta(seconds=30)
    ran.progress = {"done": 140, "total": 600, "note": "articles"}
    Job.objects.bulk_create([ran, *waits])
    Lease.objects.create(
        lease_key=lease_key,
        slot=1,
        job_id=ran.id,
        run_id=ran.run_id,
        claim=ran.claim,
        worker=WORKERS[0],
        expires_at=now + timedelta(hours=1),
    )
    return waits[0].id, ran.id


# What surrounds the jobs


def _staged(now: datetime, luck: random.Random) -> Iterator[OutboxEntry]:
    for number in range(91_000, 91_023):
        refused = number == 91_000
        yield OutboxEntry(
            id=new_id(),
            run_id=new_id(),
            name=CHECKOUT if refused else RECEIPT,
            queue="checkout" if refused else "mail",
            input={"reference": f"A-{number}"},
            idempotency_key=f"{'checkout' if refused else 'send_receipt'}:A-{number}",
            tenant_id="acme",
            staged_at=now - timedelta(seconds=310 if refused else luck.uniform(0, 4)),
            refusals=4 if refused else 0,
            retry_at=now + timedelta(seconds=40) if refused else None,
            last_error="numeric field overflow" if refused else None,
        )


def _counters(now: datetime, luck: random.Random) -> Iterator[Counter]:
    """Endings by the minute for a day and a half, by the hour before that."""
    minute = now.replace(second=0, microsecond=0)
    hour = minute.replace(minute=0) - timedelta(hours=36)
    for back in range(30 * 24 - 36):
        yield from _bucket(hour - timedelta(hours=back), 60, now, luck)
    for back in range(int((minute - hour) / timedelta(minutes=1)) - 60):
        yield from _bucket(minute - timedelta(minutes=back), 1, now, luck)


def _bucket(
    bucket: datetime, minutes: int, now: datetime, luck: random.Random
) -> Iterator[Counter]:
    ago = now - bucket
    if timedelta(hours=15) < ago < timedelta(hours=16):
        return  # the shop was closed for a move
    daylight = 1.15 - math.cos((bucket.hour + bucket.minute / 60 - 3) / 24 * math.tau)
    weekend = 0.55 if bucket.weekday() >= 5 else 1.0
    bad = timedelta(hours=4) < ago < timedelta(hours=6.5) or ago < timedelta(minutes=14)
    for name, share in ((CHECKOUT, 6), (RECEIPT, 5), (SEARCH, 9)):
        done = round(share * daylight * weekend * minutes * luck.uniform(0.8, 1.2))
        troubled = name == CHECKOUT and bad
        yield Counter(
            bucket=bucket,
            name=name,
            done=done,
            retried=_about(luck, done * 0.22 if troubled else minutes * 0.07),
            failed=_about(luck, minutes * (0.3 if troubled else 0.012)),
            dead=_about(luck, minutes * (0.5 if troubled else 0.005)),
            duration_ms=round(done * luck.uniform(160, 240)),
        )


def _about(luck: random.Random, count: float) -> int:
    return int(count * luck.uniform(0.3, 1.7) + luck.random())


def _tasks(now: datetime) -> Iterator[TaskState]:
    """Say how far the tasks have come, one that nobody declares any more included."""
    hour = now.replace(second=0, microsecond=0, minute=7)
    day = hour.replace(hour=1, minute=30)
    for name, rule, fired in (
        (NIGHTLY, "30 2 * * * Europe/Berlin", day - timedelta(days=1)),
        ("ultimate_jobs.purge", "7 * * * * UTC", hour - timedelta(hours=1)),
        ("shop.weekly_newsletter", "0 9 * * 1 Europe/Paris", day - timedelta(days=40)),
    ):
        yield TaskState(
            name=name,
            rule=rule,
            watermark=fired,
            last_fired=fired,
            fired_at=fired + timedelta(seconds=1),
        )


def _workers(now: datetime) -> Iterator[Worker]:
    running: dict[str | None, list[str]] = {}
    for job, worker in Job.objects.filter(state="running").values_list("id", "claimed_by"):
        running.setdefault(worker, []).append(str(job))
    for place, name in enumerate(WORKERS):
        host, pid, _ = name.split(":")
        lapsed = place == len(WORKERS) - 1
        beat = now - (timedelta(minutes=7) if lapsed else timedelta(seconds=2 + place))
        yield Worker(
            id=name,
            host=host,
            pid=int(pid),
            state="draining" if place == 2 else "running",
            queues=["default", "search"] if place == 1 else ["checkout", "mail", "default"],
            concurrency=8,
            running=running.get(name, []),
            started_at=now - timedelta(hours=5 + place, minutes=11 * place),
            beat_at=beat,
            expires_at=beat + timedelta(seconds=30) if lapsed else now + timedelta(hours=1),
        )
