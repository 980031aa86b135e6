"""The admin's pages as a browser shows them: how they look, what they run, who can use them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import FloatRect, Page, Route, expect

from tests.browser.conftest import PHONE, SCREENSHOTS, WIDE, Open
from tests.browser.pages import (
    badges,
    marks,
    nameless,
    outline,
    overflow,
    pages,
    questions,
    tab_to,
    url,
)
from tests.browser.scene import Scene
from tests.builders import a_job, a_staged_row, a_worker
from ultimate_jobs.core.states import JobState
from ultimate_jobs.models import Counter, JobStep, Pause

pytestmark = pytest.mark.django_db(transaction=True)

POLICY = "default-src 'self'"
README = (1_360, 2_000)
BACKWARDS = "\u202e"
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(1)</script>",
    "javascript:alert(1)",
    "{{7*7}}{% now 'Y' %}",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    f"{BACKWARDS}txt.exe",
)


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_and_is_kept_as_a_picture(
    open_page: Open, scene: Scene, operator: User, scheme: str, size: tuple[int, int]
) -> None:
    SCREENSHOTS.mkdir(exist_ok=True)
    page = open_page(url("overview_changelist"), operator, scheme=scheme, size=size)

    for name, path in (pages(scene) | questions(scene)).items():
        page.goto(path)
        page.screenshot(path=SCREENSHOTS / f"{name}-{scheme}-{size[0]}.png", full_page=True)
        assert overflow(page) <= 0, name
        assert nameless(page) == [], name


def test_the_pictures_of_the_readme_show_the_overview_and_a_saga(
    open_page: Open, scene: Scene, operator: User, readme_images: Path
) -> None:
    readme_images.mkdir(exist_ok=True)
    overview, saga = readme_images / "overview.png", readme_images / "saga.png"
    page = open_page(url("overview_changelist"), operator, size=README)
    page.screenshot(path=overview, clip=_from_to(page, ".uj-toolbar", "[aria-label=Queues]"))
    page.goto(url("job_change", scene.saga))
    page.screenshot(path=saga, clip=_from_to(page, "[aria-label=Steps]", "[aria-label=Steps]"))

    for picture in (overview, saga):
        assert 20_000 < picture.stat().st_size < 200_000


def _from_to(page: Page, first: str, last: str, margin: int = 12) -> FloatRect:
    """Answer the part of the page from one element to another, and a margin around both."""
    page.evaluate("scrollTo(0, 0)")
    top, bottom = page.locator(first).bounding_box(), page.locator(last).bounding_box()
    assert top is not None
    assert bottom is not None
    return {
        "x": top["x"] - margin,
        "y": top["y"] - margin,
        "width": top["width"] + 2 * margin,
        "height": bottom["y"] + bottom["height"] - top["y"] + 2 * margin,
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_badge_and_every_mark_can_be_told_from_its_ground(
    open_page: Open, operator: User, scheme: str
) -> None:
    page = open_page(url("overview_changelist"), operator, scheme=scheme)

    assert [state for state, contrast in badges(page) if contrast < 4.5] == []
    assert [series for series, contrast in marks(page) if contrast < 3] == []


def test_a_viewer_sees_every_page_and_no_button(
    open_page: Open, scene: Scene, viewer: User
) -> None:
    page = open_page(url("overview_changelist"), viewer)

    for name, path in pages(scene).items():
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 200, name
        acts = page.locator(".uj form[method=post] button, .uj a.uj-button", has_text="…")
        expect(acts).to_have_count(0)
        assert nameless(page) == [], name


def test_a_strict_policy_refuses_nothing(open_page: Open, scene: Scene, operator: User) -> None:
    """What a browser refuses it says on its console, which fails the test."""
    page = open_page("/admin/jsi18n/", operator)
    page.route(re.compile("/admin/ultimate_jobs/"), _with_policy)

    for name, path in pages(scene).items():
        answer = page.goto(path)
        assert answer is not None
        assert name == "index" or answer.headers["content-security-policy"] == POLICY
        expect(page.locator(".uj, #content").first).to_be_visible()


def _with_policy(route: Route) -> None:
    answer = route.fetch()
    route.fulfill(response=answer, headers={**answer.headers, "content-security-policy": POLICY})


def test_no_stored_text_is_run(open_page: Open, operator: User) -> None:
    dead = [_hostile(text) for text in HOSTILE]
    page = open_page(url("overview_changelist"), operator)

    for path in (
        url("job_changelist"),
        url("job_dead"),
        url("pause_changelist"),
        url("taskstate_changelist"),
        url("worker_changelist"),
        url("outboxentry_changelist"),
        *(url("job_change", row) for row in dead),
    ):
        page.goto(path)
        expect(page.locator(".uj")).to_be_visible()
        assert page.locator(".uj :is(script, img)").count() == 0, path
        assert page.locator('.uj a[href^="javascript:"]').count() == 0, path
        assert BACKWARDS not in page.locator(".uj").inner_text(), path
    page.goto(url("job_changelist"))
    shown = page.locator(".uj-table").inner_text()
    assert all(text in shown for text in HOSTILE if BACKWARDS not in text)


def _hostile(text: str) -> object:
    row = a_job(
        JobState.DEAD,
        name=text,
        queue=text,
        tenant_id=text,
        idempotency_key=text,
        enqueued_by=text,
        last_error=f"{text}\n{text}",
        progress={"done": 1, "total": 2, "note": text},
        input={text: text},
        result={text: [text]},
        traceparent=text,
    )
    JobStep.objects.create(
        run_id=row.run_id, job_id=row.id, name=text, position=0, status="failed", error=text
    )
    a_job(queue=text, idempotency_key=text, name=text)
    a_staged_row(name=text, queue=text, idempotency_key=text)
    for kind in ("queue", "task"):
        Pause.objects.create(kind=kind, name=text, paused_by=text, reason=text)
    Counter.objects.create(bucket=row.created_at, name=text, done=1)
    a_worker(text, host=text, state=text, queues=[text], running=[text])
    return row.id


def test_the_keyboard_reaches_every_button_and_shows_where_it_is(
    open_page: Open, scene: Scene, operator: User
) -> None:
    page = open_page(url("job_change", scene.saga), operator)
    retry = page.locator("a.uj-button", has_text="Retry…")

    tab_to(page, retry)
    style, width = outline(retry)

    assert style == "solid"
    assert width >= 2
    page.keyboard.press("Enter")
    submit = page.locator("form.uj-form button[type=submit]")
    expect(submit).to_be_visible()
    tab_to(page, submit)
    assert outline(submit)[0] == "solid"
    page.keyboard.press("Enter")
    expect(page.locator(".uj-badge").first).to_have_text("ready")


def test_an_operator_goes_from_the_overview_to_a_retry(
    open_page: Open, scene: Scene, operator: User
) -> None:
    page = open_page("/admin/", operator)
    page.locator("#content").get_by_role("link", name="Overview", exact=True).click()

    page.locator("section", has_text="Dead letters by error").last.get_by_role("link").nth(
        1
    ).click()
    expect(page).to_have_url(re.compile("state=dead"))
    page.get_by_label("Id or key").fill("checkout:A-90481")
    page.get_by_role("button", name="Filter").click()
    page.locator(".uj tbody").get_by_role("link", name="shop.checkout").click()
    expect(page.locator("h1")).to_contain_text(str(scene.saga))

    page.get_by_role("link", name="Retry…").click()
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".uj-badge").first).to_have_text("ready")

    page.get_by_role("link", name="Cancel…").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".uj-badge").first).to_have_text("cancelled")


def test_many_jobs_are_retried_after_a_look(open_page: Open, scene: Scene, operator: User) -> None:
    page = open_page(f"{url('job_changelist')}?state=dead&queue=mail", operator)
    count = page.locator(".uj tbody tr").count()

    page.get_by_label("all that match the filter").check()
    page.get_by_role("button", name="Retry…").click()
    page.get_by_role("button", name=f"Retry {count}").click()

    expect(page.locator(".messagelist")).to_contain_text(str(count))
    page.goto(f"{url('job_changelist')}?state=dead&queue=mail")
    expect(page.locator(".uj-empty")).to_be_visible()


def test_a_queue_is_paused_and_resumed(open_page: Open, scene: Scene, operator: User) -> None:
    page = open_page(url("pause_changelist"), operator)
    mail = page.locator("tr", has=page.locator("th", has_text="mail"))

    mail.get_by_role("link", name="Pause…").click()
    page.get_by_label("Reason").fill("the printer is on fire")
    page.get_by_role("button", name="Pause").click()
    expect(mail.locator(".uj-badge")).to_have_text("paused")
    expect(mail).to_contain_text("the printer is on fire")

    mail.get_by_role("link", name="Resume…").click()
    page.get_by_role("button", name="Resume").click()
    expect(mail.locator(".uj-badge")).to_have_count(0)


def test_a_task_is_paused_resumed_and_fired(open_page: Open, operator: User) -> None:
    name = "ultimate_jobs.purge"
    page = open_page(url("overview_changelist"), operator)
    page.locator(".uj-tabs").get_by_role("link", name="Tasks").click()
    expect(page.locator(".uj-note")).to_contain_text("No scheduler leads")
    row = page.locator("tr", has=page.locator("th", has_text=name))

    row.get_by_role("link", name="Pause…").click()
    expect(page.get_by_label("Task")).to_have_value(name)
    page.get_by_label("Reason").fill("an audit needs what is old")
    page.get_by_role("button", name="Pause").click()
    expect(row.locator(".uj-badge")).to_have_text("paused")
    expect(row).to_contain_text("an audit needs what is old")

    row.get_by_role("link", name="Resume…").click()
    page.get_by_role("button", name="Resume").click()
    expect(row.locator(".uj-badge")).to_have_count(0)

    row.get_by_role("link", name=name).click()
    expect(page.locator("[aria-label='Next occurrences'] tbody tr")).to_have_count(10)
    page.get_by_role("link", name="Fire…").click()
    page.get_by_role("button", name="Fire").click()
    expect(page.locator(".messagelist")).to_contain_text("was fired: 1 job enqueued")
