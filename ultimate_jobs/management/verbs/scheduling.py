"""Verbs below ``tasks``: ``list show fire pause resume``."""

from __future__ import annotations

from argparse import ArgumentParser

from ultimate_jobs.management.options import positive, stored, whoami
from ultimate_jobs.management.verb import Answer, Options, Verb
from ultimate_jobs.operate import tasks


def _named(parser: ArgumentParser) -> None:
    parser.add_argument("name", help="the task's name")


def _show_arguments(parser: ArgumentParser) -> None:
    _named(parser)
    parser.add_argument(
        "--count",
        type=positive,
        default=tasks.DEFAULT_UPCOMING,
        help=f"occurrences to show, at most {tasks.MAX_UPCOMING}",
    )


def _pause_arguments(parser: ArgumentParser) -> None:
    _named(parser)
    parser.add_argument("--reason", type=stored, help="why, for whoever finds it paused")


def _list(options: Options) -> Answer:
    return Answer({"tasks": tasks.list_tasks()})


def _show(options: Options) -> Answer:
    return Answer(tasks.show_task(options["name"], options["count"]))


def _fire(options: Options) -> Answer:
    return Answer({"task": options["name"], "jobs": tasks.fire_task(options["name"])})


def _pause(options: Options) -> Answer:
    tasks.pause_task(options["name"], options["reason"], by=whoami())
    return Answer(tasks.show_task(options["name"]))


def _resume(options: Options) -> Answer:
    tasks.resume_task(options["name"], by=whoami())
    return Answer(tasks.show_task(options["name"]))


VERBS = (
    Verb(
        name="tasks",
        help="look at tasks and act on them",
        verbs=(
            Verb(
                name="list",
                help="list the tasks, with their last fire and their next",
                run=_list,
                screen="tasks.many",
            ),
            Verb(
                name="show",
                help="show one task and its next occurrences",
                arguments=_show_arguments,
                run=_show,
                screen="tasks.one",
            ),
            Verb(
                name="fire",
                help="enqueue a task's jobs now, beside its schedule",
                arguments=_named,
                run=_fire,
                screen="tasks.fired",
            ),
            Verb(
                name="pause",
                help="fire a task no more until it is resumed",
                arguments=_pause_arguments,
                run=_pause,
                screen="tasks.one",
            ),
            Verb(
                name="resume",
                help="let a paused task go on",
                arguments=_named,
                run=_resume,
                screen="tasks.one",
            ),
        ),
    ),
)
