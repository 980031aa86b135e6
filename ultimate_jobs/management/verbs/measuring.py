"""Verbs that look at the whole: ``stats demand workers counters health watch``."""

from __future__ import annotations

import threading
from argparse import ArgumentParser

from ultimate_jobs.management.options import count, names, positive, span, stored
from ultimate_jobs.management.verb import Answer, Options, Verb
from ultimate_jobs.operate.counters import PERIODS, counter_buckets, counters, totals
from ultimate_jobs.operate.health import Limits, health
from ultimate_jobs.operate.overview import overview, queue_demand
from ultimate_jobs.operate.workers import workers


def _period(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--period", choices=list(PERIODS), default="1h", help="how far back to count"
    )


def _stats(options: Options) -> Answer:
    return Answer(overview(options["period"]))


def _demand_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--queue", type=names, default=[], help="only these queues")


def _demand(options: Options) -> Answer:
    return Answer(queue_demand(options["queue"]))


def _workers(options: Options) -> Answer:
    return Answer({"workers": workers()})


def _counters_arguments(parser: ArgumentParser) -> None:
    _period(parser)
    parser.add_argument("--name", type=stored, help="only this job")
    parser.add_argument("--buckets", action="store_true", help="also bucket by bucket of time")


def _counters(options: Options) -> Answer:
    period, name = options["period"], options["name"]
    buckets = {"buckets": counter_buckets(period, name)} if options["buckets"] else {}
    return Answer(
        {"period": period, "jobs": counters(period, name), "total": totals(period, name), **buckets}
    )


def _health_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--max-oldest", type=span, metavar="SPAN", help="how long a due job may wait"
    )
    parser.add_argument(
        "--max-dead", type=count, metavar="N", help="dead jobs that a queue may have"
    )
    parser.add_argument(
        "--max-outbox-age", type=span, metavar="SPAN", help="how long a staged row may wait"
    )
    parser.add_argument(
        "--max-stranded",
        type=count,
        metavar="N",
        help="jobs of a queue that no living worker can take",
    )
    parser.add_argument("--queue", type=names, default=[], help="only these queues")


def _health(options: Options) -> Answer:
    found = health(
        Limits(
            max_oldest=options["max_oldest"],
            max_dead=options["max_dead"],
            max_outbox_age=options["max_outbox_age"],
            max_stranded=options["max_stranded"],
            queues=tuple(options["queue"]),
        )
    )
    return Answer(found, code=0 if found["healthy"] else 1)


def _watch_arguments(parser: ArgumentParser) -> None:
    _period(parser)
    parser.add_argument(
        "--every", type=span, default="2s", metavar="SPAN", help="time between looks"
    )
    parser.add_argument("--count", type=positive, metavar="N", help="end after this many looks")


def _watch(options: Options) -> Answer:
    pause = threading.Event()
    snapshots = []
    for look in range(options["count"] or 1):
        if look:
            pause.wait(options["every"].total_seconds())
        snapshots.append(overview(options["period"]))
    return Answer({"snapshots": snapshots})


VERBS = (
    Verb(
        name="stats",
        help="show queues, outbox, workers and what ended",
        arguments=_period,
        run=_stats,
        screen="overview.whole",
    ),
    Verb(
        name="demand",
        help="count the bodies that could be busy now, for whoever scales workers",
        arguments=_demand_arguments,
        run=_demand,
        screen="overview.demanded",
    ),
    Verb(name="workers", help="show the workers", run=_workers, screen="overview.workers"),
    Verb(
        name="counters",
        help="count what ended, by job",
        arguments=_counters_arguments,
        run=_counters,
        screen="overview.counted",
    ),
    Verb(
        name="health",
        help="compare with limits; exits 1 when one is passed",
        arguments=_health_arguments,
        run=_health,
        screen="overview.healthy",
    ),
    Verb(
        name="watch",
        help="show queues, outbox and workers until q is pressed",
        arguments=_watch_arguments,
        run=_watch,
        screen="overview.snapshots",
        live="live.watch",
    ),
)
