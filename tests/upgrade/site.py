"""A small site over whichever release of the package it finds: `python tests/upgrade/site.py`.

Reads orders from its input, a line of JSON each, and answers each with a line. It imports nothing of this
project but the package itself, and only what every release has. What its jobs return says which release
ran which part of them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from typing import Any

import django
from django.conf import settings

RELEASE = os.environ["RELEASE"]


def main() -> None:
    settings.configure(
        DATABASES={"default": json.loads(os.environ["SITE_DATABASE"])},
        INSTALLED_APPS=["django.contrib.contenttypes", "ultimate_jobs"],
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
    )
    django.setup()
    orders = _orders()
    for line in sys.stdin:
        order = json.loads(line)
        answer = orders[order.pop("do")](**order)
        print(json.dumps(answer), flush=True)  # noqa: T201


def _orders() -> dict[str, Callable[..., Any]]:
    # They need the settings.
    from django.core.management import call_command  # noqa: PLC0415
    from django.db import transaction  # noqa: PLC0415

    import ultimate_jobs  # noqa: PLC0415

    jobs = _declared()

    def enqueue(key: str) -> list[str]:
        """Stage a job of each kind in one transaction."""
        with transaction.atomic():
            return [str(one.enqueue(Errand(key)).id) for one in jobs]

    def enqueue_directly(key: str) -> list[str]:
        return [
            str(jobs[0].enqueue_many([Errand(f"{key}-{n}") for n in range(3)])[n].id)
            for n in (0, 1, 2)
        ]

    def command(*arguments: str) -> str:
        said = StringIO()
        call_command(*arguments, stdout=said)
        return said.getvalue()

    def answer(key: str) -> int:
        return ultimate_jobs.publish_event("upgrade.answer", {"by": RELEASE}, correlation_key=key)

    return {
        "where": lambda: ultimate_jobs.__file__,
        "enqueue": enqueue,
        "enqueue_directly": enqueue_directly,
        "relay": lambda: command("jobs_relay", "--drain"),
        "work": lambda: command("jobs_worker", "--drain"),
        "answer": answer,
        "show": lambda job: json.loads(command("jobs", "show", job, "--json")),
        "stats": lambda: json.loads(command("jobs", "stats", "--json")),
    }


@dataclass(frozen=True, slots=True)
class Errand:
    """What to do."""

    key: str


def _declared() -> list[Any]:
    from ultimate_jobs import NO_TENANT, RateLimit, Retry, Run, job  # noqa: PLC0415

    limit = RateLimit("upgrade", limit=100, window="1h", scope="shared")
    common: dict[str, Any] = {
        "input": Errand,
        "tenant": NO_TENANT,
        "idempotency_key": lambda errand: errand.key,
        "retry": Retry(attempts=2, backoff="fixed", delay="1h"),
    }

    @job(name="upgrade.plain", **common)
    def plain(run: Run[Errand]) -> str:
        limit.take()
        return RELEASE

    @job(name="upgrade.capped", concurrency=1, **common)
    def capped(run: Run[Errand]) -> str:
        run.progress(1, 1)
        return RELEASE

    @job(name="upgrade.trip", **common)
    def trip(run: Run[Errand]) -> list[Any]:
        began = run.step("began", lambda: RELEASE)
        booked = run.atomic("booked", lambda: RELEASE)
        run.sleep("1h")
        woke = run.step("woke", lambda: RELEASE, once=True)
        if not run.final_attempt:
            raise RuntimeError("the first attempt fails")
        answer = run.wait_for_event(
            "answer", "upgrade.answer", schema=dict, match=run.input.key, timeout="7d"
        )
        return [began, booked, woke, answer, RELEASE]

    @job(name="upgrade.saga", compensates=True, **common)
    def saga(run: Run[Errand]) -> None:
        run.step("charge", lambda: RELEASE, compensate=lambda charged: None)
        raise RuntimeError("there is nothing to sell")

    return [plain, capped, trip, saga]


if __name__ == "__main__":
    main()
