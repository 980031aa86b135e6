"""The previous release works on the present schema, beside the present one and by itself.

`previous.tar.xz` is the package as the last release had it; CONTRIBUTING.md says when it is renewed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db.models.functions import Now

from tests.builders import sql
from tests.postgres.test_statements import prepared
from tests.upgrade.conftest import Site
from ultimate_jobs.core.states import WAITING
from ultimate_jobs.models import Counter, Job as JobRow, JobStep, Lease, OutboxEntry

Sites = Callable[[str], Site]
STATEMENTS = "ultimate_jobs/drivers/postgres/sql"
MIGRATIONS = "ultimate_jobs/migrations"


def time_passes() -> None:
    """Let every sleep and every wait for a retry be over, and not those for an event."""
    JobStep.objects.filter(status="sleeping").update(wake_at=Now())
    JobRow.objects.filter(state__in=WAITING).update(run_at=Now())


def endings() -> dict[str, tuple[str, Any]]:
    """Answer the state and the result of each job."""
    return {row.name: (row.state, row.result) for row in JobRow.objects.all()}


def leaf(package: Path) -> str:
    """Name the last migration that a release has."""
    return max(path.stem for path in (package / MIGRATIONS).glob("0*.py"))


@pytest.mark.django_db(transaction=True)
def test_every_statement_of_the_previous_release_fits_the_schema(previous: Path) -> None:
    statements = sorted((previous / STATEMENTS).rglob("*.sql"))
    assert len(statements) > 50

    for path in statements:
        run = prepared(path.read_text(encoding="utf-8"))
        try:
            sql(f"PREPARE checked AS {run}")
        except Exception as error:
            error.add_note(
                f"It is {path.relative_to(previous / STATEMENTS)} of the previous release."
            )
            raise
        sql("DEALLOCATE checked")


@pytest.mark.scenario
@pytest.mark.slow
@pytest.mark.parametrize(
    "turns",
    [("previous",), ("previous", "present"), ("present", "previous")],
    ids=["the previous one alone", "the previous one begins", "the present one begins"],
)
def test_a_fleet_of_both_releases_ends_every_job_as_either_would(
    sites: Sites, previous: Path, turns: tuple[str, ...]
) -> None:
    assert str(previous) in sites("previous").do("where")
    whose = cycle(turns)

    def next_one() -> Site:
        return sites(next(whose))

    ids = next_one().do("enqueue", key="k")
    next_one().do("relay")
    next_one().do("work")
    for _ in range(3):
        time_passes()
        next_one().do("work")
    assert next_one().do("answer", key="k") == 1
    next_one().do("work")

    found = endings()
    assert {name: state for name, (state, _) in found.items()} == {
        "upgrade.plain": "done",
        "upgrade.capped": "done",
        "upgrade.trip": "done",
        "upgrade.saga": "dead",
    }
    began, booked, woke, answer, ended = found["upgrade.trip"][1]
    assert {began, booked, woke, answer["by"], ended} == set(turns)
    assert JobStep.objects.get(name="compensate:charge").status == "completed"
    assert not Lease.objects.exists()
    assert not OutboxEntry.objects.exists()
    assert sum(Counter.objects.values_list("done", flat=True)) == 3
    for job in ids:
        assert next_one().do("show", job=job)["id"] == job


@pytest.fixture
def at_the_schema_of_the_previous_release(previous: Path, transactional_db: None) -> Iterator[str]:
    """Go back to the last migration that the previous release has, and forward at the end."""
    call_command("migrate", "ultimate_jobs", leaf(previous), verbosity=0)
    yield leaf(previous)
    call_command("migrate", "ultimate_jobs", verbosity=0)


def counted() -> dict[str, int]:
    tables = [
        name for (name,) in sql("SELECT tablename FROM pg_tables WHERE tablename LIKE 'x\\_%'")
    ]
    return {name: sql(f"SELECT count(*) FROM {name}")[0][0] for name in sorted(tables)}  # noqa: S608


@pytest.mark.scenario
@pytest.mark.slow
def test_a_filled_database_is_migrated_forward_and_back_and_loses_nothing(
    at_the_schema_of_the_previous_release: str, sites: Sites
) -> None:
    old, new = sites("previous"), sites("present")
    old.do("enqueue", key="a")
    old.do("relay")
    old.do("work")
    old.do("enqueue", key="b")
    before = counted()
    assert before["x_jobs"] == before["x_outbox"] == 4

    call_command("migrate", "ultimate_jobs", verbosity=0)
    filled = counted()
    assert {name: filled[name] for name in before} == before
    new.do("relay")
    new.do("work")
    call_command("migrate", "ultimate_jobs", at_the_schema_of_the_previous_release, verbosity=0)
    for _ in range(4):
        time_passes()
        old.do("work")
    assert [old.do("answer", key=key) for key in ("a", "b")] == [1, 1]
    old.do("work")

    assert sorted(JobRow.objects.values_list("name", "state")) == sorted(
        [
            *[("upgrade.plain", "done"), ("upgrade.capped", "done"), ("upgrade.trip", "done")] * 2,
            *[("upgrade.saga", "dead")] * 2,
        ]
    )
