"""Enqueues in a loop are noticed; those that only look alike are not."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from types import ModuleType

import pytest
from django.db import transaction

from tests.builders import Declarations, Ping
from ultimate_jobs import Job, Run
from ultimate_jobs.testing import EnqueueLoopWarning, JobsKit
from ultimate_jobs.testing.loops import MANY

pytestmark = pytest.mark.django_db

PROJECT = """
from django.db import transaction

def in_a_loop(job, ping, count):
    for number in range(count):
        job.enqueue(ping(str(number)))

def by_a_helper(job, ping, count):
    def one(number):
        job.enqueue(ping(str(number)))
    with transaction.atomic():
        for number in range(count):
            one(number)

def by_a_comprehension(job, ping, count):
    return [job.enqueue(ping(str(number))) for number in range(count)]

def once(job, ping, key):
    job.enqueue(ping(key))

def with_delays(job, ping, count):
    for number in range(count):
        job.enqueue(ping(str(number)), delay=number)
"""


@pytest.fixture(scope="module")
def project() -> ModuleType:
    """Answer code of a project, which is in another file than the test."""
    module = ModuleType("a_project")
    exec(compile(PROJECT, "/a/project.py", "exec"), module.__dict__)  # noqa: S102
    return module


@pytest.fixture
def job(declare: Declarations) -> Job[Ping, object]:
    return declare()


@pytest.fixture
def quiet_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("way", ["in_a_loop", "by_a_helper", "by_a_comprehension"])
def test_a_loop_of_the_project_is_named(
    jobs: JobsKit, job: Job[Ping, object], project: ModuleType, way: str
) -> None:
    with pytest.warns(EnqueueLoopWarning, match=r"in the loop at /a/project.py:\d+") as caught:
        getattr(project, way)(job, Ping, MANY * 3)

    assert len(caught) == 1
    assert f"'{job.name}'" in str(caught[0].message)


def test_a_loop_of_a_body_is_named(
    jobs: JobsKit, job: Job[Ping, object], project: ModuleType, declare: Declarations
) -> None:
    parent = declare(lambda run: project.in_a_loop(job, Ping, MANY))

    with pytest.warns(EnqueueLoopWarning):
        jobs.run_jobs(parent, Ping("a"))


@pytest.mark.usefixtures("quiet_warnings")
def test_what_only_looks_like_a_loop_is_left_alone(
    jobs: JobsKit, job: Job[Ping, object], project: ModuleType, declare: Declarations
) -> None:
    project.in_a_loop(job, Ping, MANY - 1)
    for number in range(MANY * 2):  # the test's own
        project.once(job, Ping, str(number))
    project.with_delays(job, Ping, MANY * 2)
    job.enqueue_many([Ping(f"m{number}") for number in range(MANY * 2)])


@pytest.mark.usefixtures("quiet_warnings")
def test_bodies_that_enqueue_once_each_are_left_alone(
    jobs: JobsKit, job: Job[Ping, object], project: ModuleType, declare: Declarations
) -> None:
    def body(run: Run[Ping]) -> None:
        with transaction.atomic():
            project.once(job, Ping, run.input.key)

    parent = declare(body)
    parent.enqueue_many([Ping(str(number)) for number in range(MANY * 2)])

    assert len(jobs.run_jobs()) == MANY * 4


def test_nothing_of_a_warned_loop_is_lost(
    jobs: JobsKit, job: Job[Ping, object], project: ModuleType
) -> None:
    with pytest.warns(EnqueueLoopWarning):
        project.in_a_loop(job, Ping, MANY)

    assert len(jobs.enqueued(job)) == MANY
