"""The overview keeps itself fresh, stops when told, and works without a script."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Open
from tests.browser.pages import url
from tests.browser.scene import Scene
from tests.builders import a_job, some_jobs
from ultimate_jobs.admin.overview import REFRESH_SECONDS

pytestmark = pytest.mark.django_db(transaction=True)

ROUND = REFRESH_SECONDS * 1000 + 1


def due(page: Page) -> Locator:
    return page.locator(".uj-figures > div", has_text="Due now").locator("dd")


def set_hidden(page: Page, hidden: str) -> None:
    page.evaluate(
        "hidden => { Object.defineProperty(document, 'hidden', {get: () => hidden, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        hidden == "hidden",
    )


def stopped(page: Page) -> Page:
    """Let time stand still on the page until the test moves it."""
    page.clock.install()
    return page


def test_it_shows_what_came_after_it_was_opened(open_page: Open, operator: User) -> None:
    page = open_page(url("overview_changelist"), operator, before=stopped)
    expect(due(page)).to_have_text("0")

    some_jobs(3)
    page.clock.run_for(ROUND)

    expect(due(page)).to_have_text("3")
    expect(page.locator("[data-refresh-note]")).to_contain_text("Updated")


def test_a_table_that_was_opened_stays_open(open_page: Open, scene: Scene, operator: User) -> None:
    page = open_page(url("overview_changelist"), operator, before=stopped)
    page.locator("summary").first.click()
    page.evaluate("document.activeElement.blur()")

    page.clock.run_for(ROUND)

    expect(page.locator('[data-refresh][data-refreshed="1"]')).to_be_visible()
    expect(page.locator("details[open]")).to_have_count(1)


@pytest.mark.parametrize("how", ["paused", "hidden"])
def test_it_asks_nothing_while_nobody_wants_to_know(
    open_page: Open, operator: User, how: str
) -> None:
    page = open_page(url("overview_changelist"), operator, before=stopped)
    button = page.get_by_role("button", name="Pause updating")
    if how == "paused":
        button.click()
    else:
        set_hidden(page, "hidden")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    a_job()

    page.clock.run_for(10 * ROUND)
    assert asked == []

    if how == "paused":
        page.get_by_role("button", name="Resume updating").click()
    else:
        set_hidden(page, "visible")
    expect(due(page)).to_have_text("1")


def test_somebody_who_was_signed_out_is_told(open_page: Open, operator: User) -> None:
    page = open_page(url("overview_changelist"), operator, before=stopped)
    page.context.clear_cookies()

    page.clock.run_for(ROUND)

    expect(page.locator("[data-refresh-note]")).to_contain_text("signed out")
    expect(page.locator(".uj-figures")).to_be_visible()


def test_without_a_script_the_page_is_the_same(
    open_page: Open, scene: Scene, operator: User
) -> None:
    page = open_page(url("overview_changelist"), operator, script=False)

    expect(page.get_by_role("img", name="Throughput")).to_be_visible()
    expect(page.locator("[data-refresh-pause]")).to_be_hidden()
    page.get_by_role("link", name="7d").click()
    expect(page.locator("[aria-current=true]")).to_have_text("7d")
