"""Verbs that stop and start queues: ``pause resume``."""

from __future__ import annotations

from argparse import ArgumentParser

from ultimate_jobs.management.options import stored, whoami
from ultimate_jobs.management.verb import Answer, Options, Verb
from ultimate_jobs.operate.pauses import pause_queue, pauses, resume_queue
from ultimate_jobs.operate.verbs import Act


def _pause_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("queue", type=stored, help="the queue")
    parser.add_argument("--reason", type=stored, help="why, for whoever finds it paused")


def _pause(options: Options) -> Answer:
    return _done(pause_queue(options["queue"], by=whoami(), reason=options["reason"]))


def _resume_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("queue", type=stored, help="the queue")


def _resume(options: Options) -> Answer:
    return _done(resume_queue(options["queue"], by=whoami()))


def _done(act: Act) -> Answer:
    return Answer({"verb": act.verb, **act.details, "by": act.by, "pauses": pauses()})


VERBS = (
    Verb(
        name="pause",
        help="let no worker claim from a queue",
        arguments=_pause_arguments,
        run=_pause,
        screen="overview.paused",
    ),
    Verb(
        name="resume",
        help="let workers claim from a queue again",
        arguments=_resume_arguments,
        run=_resume,
        screen="overview.paused",
    ),
)
