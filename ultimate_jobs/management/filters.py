"""The options that say which jobs are meant, for the list and for every bulk verb."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError

from django.apps import apps
from django.contrib.contenttypes.models import ContentType

from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.selection import Selection
from ultimate_jobs.core.states import JobState
from ultimate_jobs.errors import UsageInvalid
from ultimate_jobs.management.options import span, stored
from ultimate_jobs.management.verb import Options

FILTERS = (
    "state",
    "queue",
    "name",
    "tenant",
    "key",
    "related",
    "error_like",
    "older_than",
    "newer_than",
)


def add_filters(parser: ArgumentParser) -> None:
    """Add the options; every one narrows what is meant."""
    parser.add_argument(
        "--state", type=states, help="only these states, separated by commas", metavar="STATE"
    )
    parser.add_argument("--queue", type=stored, help="only this queue")
    parser.add_argument("--name", type=stored, help="only this job")
    parser.add_argument("--tenant", type=stored, help="only this tenant")
    parser.add_argument("--key", type=stored, help="only this idempotency key")
    parser.add_argument(
        "--related", type=stored, metavar="APP.MODEL:ID", help="only jobs about this object"
    )
    parser.add_argument(
        "--error-like", type=stored, metavar="TEXT", help="only with this text in the last error"
    )
    parser.add_argument(
        "--older-than", type=span, metavar="SPAN", help="only jobs enqueued longer ago"
    )
    parser.add_argument(
        "--newer-than", type=span, metavar="SPAN", help="only jobs not enqueued as long ago"
    )


def states(text: str) -> tuple[JobState, ...]:
    """Read states separated by commas."""
    known = [state.value for state in JobState]
    words = [word.strip() for word in text.split(",")]
    unknown = [word for word in words if word not in known]
    if unknown:
        raise ArgumentTypeError(f"{unknown[0]!r} is no state; choose from {', '.join(known)}")
    return tuple(JobState(word) for word in dict.fromkeys(words))


def selection(options: Options) -> Selection:
    """Answer what the options mean.

    Raises:
        UsageInvalid: ``--related`` names no model.

    """
    return Selection(
        states=options["state"] or (),
        queue=options["queue"],
        name=options["name"],
        tenant=options["tenant"],
        key=options["key"],
        related=None if options["related"] is None else _related(options["related"]),
        error_like=options["error_like"],
        older_than=options["older_than"],
        newer_than=options["newer_than"],
    )


def _related(text: str) -> tuple[int, str]:
    label, colon, key = text.partition(":")
    try:
        model = apps.get_model(label)
    except (LookupError, ValueError):
        model = None
    if model is None or not colon or not key:
        raise UsageInvalid(
            "--related names no object.", fix="Write it as --related shop.order:7, model and id."
        )
    manager = ContentType.objects.db_manager(get_settings().database)
    return manager.get_for_model(model).pk, key
