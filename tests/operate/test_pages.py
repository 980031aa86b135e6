"""Pages of jobs: every row once, forwards and backwards, whatever instants rows share."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import connections, transaction  # noqa: TID251 - to see what a page asks
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from tests.builders import PING, Declarations, Ping, a_job, some_jobs, sql
from ultimate_jobs.core.states import JobState
from ultimate_jobs.errors import InvariantError, PageInvalid
from ultimate_jobs.models import Job as JobRow
from ultimate_jobs.operate import search
from ultimate_jobs.operate.inspection import Filter, list_jobs, page_of_jobs

pytestmark = pytest.mark.django_db

INPUTS = Path(__file__).parent.parent / "cases" / "inputs"
ROWS = 1_203
BEGAN = datetime(2026, 12, 1, tzinfo=UTC)


def a_row(number: int, created_at: datetime, state: JobState = JobState.DONE) -> JobRow:
    """Build a job whose id says nothing about when it was made."""
    scrambled = UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128)
    return JobRow(
        id=scrambled,
        run_id=scrambled,
        state=state,
        name=PING,
        idempotency_key=f"k-{number}",
        input={},
        created_at=created_at,
    )


@pytest.fixture
def everything() -> list[str]:
    """Fill the table with rows of one millisecond, most of one microsecond; answer the order."""
    return filled()


def filled(step: int = 1) -> list[str]:
    """Fill the table with every so many of those rows."""
    with (INPUTS / "keyset-rows.csv").open(newline="") as file:
        rows = [
            a_row(n, datetime.fromisoformat(row["created_at"]))
            for n, row in enumerate(csv.DictReader(file))
        ]
    JobRow.objects.bulk_create(rows[::step])
    sql("ANALYZE x_jobs")
    return newest_first()


def newest_first() -> list[str]:
    rows = sql("SELECT id::text FROM x_jobs ORDER BY created_at DESC, id DESC")
    return [row[0] for row in rows]


def ids(**wanted: Any) -> list[str]:
    return [job["id"] for job in list_jobs(Filter(**wanted))]


def forwards(size: int, **wanted: Any) -> Iterator[list[str]]:
    page = ids(limit=size, **wanted)
    while page:
        yield page
        page = ids(limit=size, after=page[-1], **wanted)


def backwards(size: int, end: str, **wanted: Any) -> Iterator[list[str]]:
    page = ids(limit=size, before=end, **wanted)
    while page:
        yield page
        page = ids(limit=size, before=page[0], **wanted)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "step"), [(1, 9), (2, 5), (7, 1), (50, 1), (200, 1)])
def test_pages_skip_and_repeat_nothing_in_either_direction(size: int, step: int) -> None:
    everything = filled(step)
    there = [job for page in forwards(size) for job in page]
    back = [job for page in backwards(size, everything[-1]) for job in reversed(page)]

    assert there == everything
    assert back == everything[-2::-1]


def test_a_page_is_full_unless_it_is_the_last(everything: list[str]) -> None:
    sizes = [len(page) for page in forwards(200)]

    assert sizes == [200] * 6 + [3]


def test_a_page_before_a_row_is_read_downwards_like_any_other(everything: list[str]) -> None:
    assert ids(limit=3, before=everything[10]) == everything[7:10]
    assert ids(limit=50, before=everything[3]) == everything[:3]
    assert ids(limit=50, before=everything[0]) == []
    assert ids(limit=50, after=everything[-1]) == []


def test_rows_that_come_on_the_way_cost_no_row_that_was_there(everything: list[str]) -> None:
    seen: list[str] = []
    for number, page in enumerate(forwards(200)):
        seen += page
        if number == 2:
            JobRow.objects.bulk_create(
                a_row(n, BEGAN + timedelta(hours=1 if n % 2 else -1))
                for n in range(ROWS, ROWS + 200)
            )

    assert [job for job in seen if job in set(everything)] == everything
    assert len(seen) == len(set(seen)) == ROWS + 100


def test_filters_keep_their_order_and_their_pages(declare: Declarations) -> None:
    mail = some_jobs(5, queue="mail", tenant_id="acme")
    some_jobs(5, queue="mail", tenant_id="other")
    some_jobs(5)
    wanted = {"queue": "mail", "name": PING, "tenant": "acme", "states": (JobState.READY,)}

    there = [job for page in forwards(2, **wanted) for job in page]

    assert there == [str(row.id) for row in reversed(mail)]


# Cursors


CURSORS: list[Callable[[str], Filter]] = [
    lambda cursor: Filter(after=cursor),
    lambda cursor: Filter(before=cursor),
]


@pytest.mark.parametrize("page", CURSORS, ids=["after", "before"])
@pytest.mark.parametrize(
    "cursor", ["", "no id", "7", "00000000-0000-7000-8000-000000000000", "2026-12-01T00:00:00Z"]
)
def test_a_cursor_made_up_by_hand_is_refused(page: Callable[[str], Filter], cursor: str) -> None:
    a_job()

    with pytest.raises(PageInvalid) as caught:
        list_jobs(page(cursor))
    assert caught.value.code == "X_JOB_PAGE_INVALID"


@pytest.mark.parametrize("page", CURSORS, ids=["after", "before"])
def test_a_cursor_whose_row_is_gone_is_refused(page: Callable[[str], Filter]) -> None:
    gone = a_job()
    gone_id = str(gone.id)
    gone.delete()

    with pytest.raises(PageInvalid):
        list_jobs(page(gone_id))


@pytest.mark.parametrize("page", CURSORS, ids=["after", "before"])
def test_the_id_of_a_staged_row_is_no_cursor(
    declare: Declarations, page: Callable[[str], Filter]
) -> None:
    with transaction.atomic():
        staged = declare().enqueue(Ping("k"))

    with pytest.raises(PageInvalid):
        list_jobs(page(str(staged.id)))


@pytest.mark.parametrize(
    "wanted", [{"queue": "mail"}, {"name": "tests.other"}, {"tenant": "acme"}], ids=str
)
@pytest.mark.parametrize("side", ["after", "before"])
def test_a_cursor_from_another_list_is_refused(wanted: dict[str, str], side: str) -> None:
    foreign = a_job()

    with pytest.raises(PageInvalid):
        ids(**wanted, **{side: str(foreign.id)})


def test_a_cursor_may_have_moved_to_another_state_since_its_page() -> None:
    rows = some_jobs(4)
    (first, cursor) = ids(limit=2, states=(JobState.READY,))
    JobRow.objects.filter(id=cursor).update(state=JobState.DONE)

    assert first == str(rows[3].id)
    assert ids(states=(JobState.READY,), after=cursor) == [str(rows[1].id), str(rows[0].id)]


@pytest.mark.parametrize("limit", [0, -1, 201, 10**9])
def test_a_page_has_1_to_200_rows(limit: int) -> None:
    with pytest.raises(PageInvalid) as caught:
        list_jobs(Filter(limit=limit))
    assert caught.value.code == "X_JOB_PAGE_INVALID"
    assert "1 to 200" in caught.value.cause


def test_a_page_has_a_hundred_rows_unless_it_is_said(everything: list[str]) -> None:
    assert ids() == everything[:100]


def test_a_page_cannot_be_after_one_row_and_before_another() -> None:
    one, other = some_jobs(2)

    with pytest.raises(InvariantError) as caught:
        ids(after=str(other.id), before=str(one.id))
    assert caught.value.code == "X_INVARIANT"


# Clocks


@pytest.fixture
def local_time(settings: Settings) -> None:
    """Let the project keep local time, in a place whose clocks go back."""
    settings.USE_TZ = False
    settings.TIME_ZONE = "Europe/Berlin"


@pytest.mark.parametrize("size", [1, 2])
def test_an_hour_that_local_clocks_show_twice_is_paged_once(local_time: None, size: int) -> None:
    for minute in range(6):
        row = a_job()
        instant = f"2026-10-25T0{minute % 2}:30:0{minute}Z"
        sql("UPDATE x_jobs SET created_at = %s WHERE id = %s", [instant, row.id])
    everything = newest_first()

    pages = forwards(size)
    there = [job for _, page in zip(range(10), pages, strict=False) for job in page]

    assert there == everything
    back = backwards(size, everything[-1])
    assert [job for _, page in zip(range(10), back, strict=False) for job in reversed(page)] == (
        everything[-2::-1]
    )


# Cost


@pytest.mark.parametrize("side", ["after", "before"])
def test_a_page_costs_two_statements(everything: list[str], side: str) -> None:
    with CaptureQueriesContext(connections["default"]) as asked:
        ids(limit=10, **{side: everything[ROWS // 2]})

    assert len(asked.captured_queries) == 2


def test_a_page_names_the_pages_beside_it(everything: list[str]) -> None:
    first = page_of_jobs(Filter(limit=3))
    second = page_of_jobs(Filter(limit=3, after=first.next))
    back = page_of_jobs(Filter(limit=3, before=second.previous))

    assert (first.previous, first.complete) == (None, True)
    assert [job["id"] for job in (*first.jobs, *second.jobs)] == everything[:6]
    assert back.jobs == first.jobs
    assert back.previous is None
    assert page_of_jobs(Filter(limit=200, after=ids(limit=200)[-1])).next is not None
    assert page_of_jobs(Filter(limit=3, after=everything[-4])).next is None


@pytest.mark.parametrize("side", ["after", "before"])
def test_a_page_goes_on_from_a_row_that_is_gone(everything: list[str], side: str) -> None:
    middle = page_of_jobs(Filter(limit=3, after=everything[9]))
    cursor = middle.next if side == "after" else middle.previous
    JobRow.objects.filter(id__in=[job["id"] for job in middle.jobs]).delete()

    found = ids(limit=3, **{side: cursor})

    assert found == (everything[13:16] if side == "after" else everything[7:10])


@pytest.mark.parametrize(
    "spoilt", ["{id}.1", "{id}.x.{digest}", "{id}.{at}.00000000", "{id}..", "."]
)
def test_a_cursor_that_was_tampered_with_is_refused(everything: list[str], spoilt: str) -> None:
    job, at, digest = str(page_of_jobs(Filter(limit=3)).next).split(".")

    with pytest.raises(PageInvalid):
        ids(after=spoilt.format(id=job, at=at, digest=digest))


def test_a_cursor_of_another_list_is_refused(everything: list[str]) -> None:
    cursor = page_of_jobs(Filter(limit=3, queue="default")).next

    with pytest.raises(PageInvalid):
        ids(after=cursor, queue="default", tenant="acme")


def test_a_search_that_ends_at_its_window_says_where_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "WINDOW", 4)
    wanted = [a_job(JobState.DONE, tenant_id="acme") for _ in range(2)]
    for n in range(7):
        a_job(JobState.DONE, tenant_id="acme" if n == 6 else "other")

    seen: list[str] = []
    pages, cursor = 0, None
    while True:
        page = page_of_jobs(Filter(tenant="acme", limit=3, after=cursor))
        seen += [job["id"] for job in page.jobs]
        pages, cursor = pages + 1, page.next
        if cursor is None:
            break
        assert not page.complete
        assert page.searched == 4

    assert pages == 3
    assert seen[1:] == [str(row.id) for row in reversed(wanted)]


def test_rows_that_live_are_found_however_old_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "WINDOW", 4)
    old = [a_job(JobState.RUNNING), a_job(JobState.SUSPENDED)]
    some_jobs(9, JobState.DONE)

    for row in old:
        page = page_of_jobs(Filter(states=(JobState(row.state),)))
        assert [job["id"] for job in page.jobs] == [str(row.id)]
        assert page.complete


def test_when_more_live_than_a_search_may_read_the_newest_of_all_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "WINDOW", 4)
    rows = some_jobs(9)

    first = page_of_jobs(Filter(states=(JobState.READY,), limit=2))
    assert [job["id"] for job in first.jobs] == [str(row.id) for row in rows[:-3:-1]]
    there = [job for page in forwards(2, states=(JobState.READY,)) for job in page]
    assert there == newest_first()
