"""Where the pages are, and what a test asks of one as the browser shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from django.contrib.admin.utils import quote
from django.urls import reverse
from playwright.sync_api import Locator, Page

from tests.browser.scene import Scene

STATES = (
    "staged",
    "ready",
    "delayed",
    "running",
    "suspended",
    "done",
    "failed",
    "dead",
    "cancelled",
    "paused",
    "alive",
    "lapsed",
)

_COLOURS = """states => states.map(state => {
    const badge = document.createElement("span");
    badge.className = "uj-badge";
    badge.dataset.state = state;
    badge.textContent = state;
    document.querySelector(".uj").append(badge);
    const style = getComputedStyle(badge);
    return [state, style.color, style.backgroundColor];
})"""

_FILLS = """series => series.map(name => {
    const figure = document.createElement("figure");
    figure.className = "uj-chart uj-card";
    figure.innerHTML = `<svg><rect data-series="${name}"></rect></svg>`;
    document.querySelector(".uj").append(figure);
    const fill = getComputedStyle(figure.querySelector("rect")).fill;
    return [name, fill, getComputedStyle(figure).backgroundColor];
})"""

_NAMELESS = """() => {
    const fields = document.querySelectorAll(".uj :is(input, select, textarea, button, progress)");
    return Array.from(fields)
        .filter(field => field.type !== "hidden" && !field.hidden)
        .filter(field => !field.ariaLabel && !(field.labels || []).length && !field.textContent.trim())
        .map(field => field.outerHTML);
}"""


def url(name: str, *args: object) -> str:
    """Answer the address of a page."""
    return reverse(f"admin:ultimate_jobs_{name}", args=args)


def pages(scene: Scene) -> dict[str, str]:
    """Answer the address of every page of a scene, by what its picture is called."""
    return {
        "index": reverse("admin:index"),
        "overview": url("overview_changelist"),
        "overview-1h": f"{url('overview_changelist')}?period=1h",
        "overview-7d": f"{url('overview_changelist')}?period=7d",
        "overview-30d": f"{url('overview_changelist')}?period=30d",
        "jobs": url("job_changelist"),
        "jobs-dead": f"{url('job_changelist')}?state=dead&queue=checkout",
        "jobs-none": f"{url('job_changelist')}?queue=nowhere",
        "saga": url("job_change", scene.saga),
        "waiting": url("job_change", scene.waiting),
        "dead": url("job_dead"),
        "queues": url("pause_changelist"),
        "tasks": url("taskstate_changelist"),
        "task": url("taskstate_change", quote(scene.task)),
        "standing-by": url("job_change", scene.standing_by),
        "capped": url("job_change", scene.capped),
        "workers": url("worker_changelist"),
        "outbox": url("outboxentry_changelist"),
    }


def questions(scene: Scene) -> dict[str, str]:
    """Answer the address of a page of each sort that asks before anything is done."""
    return {
        "job-act": url("job_act", scene.saga, "retry"),
        "task-act": f"{url('taskstate_act', 'fire')}?task={scene.task}",
    }


def overflow(page: Page) -> int:
    """Answer by how much the page is wider than its window."""
    root = "document.documentElement"
    return int(page.evaluate(f"{root}.scrollWidth - {root}.clientWidth"))


def nameless(page: Page) -> list[str]:
    """Answer the fields and buttons that a screen reader could not name."""
    found: list[str] = page.evaluate(_NAMELESS)
    return found


def badges(page: Page) -> Iterator[tuple[str, float]]:
    """Answer the contrast of the badge of every state, as the page shows it."""
    return _contrasts(page.evaluate(_COLOURS, list(STATES)))


def marks(page: Page) -> Iterator[tuple[str, float]]:
    """Answer the contrast of every series of a chart to what it is drawn on."""
    return _contrasts(page.evaluate(_FILLS, ["done", "retried", "failed", "dead"]))


def _contrasts(found: list[tuple[str, str, str]]) -> Iterator[tuple[str, float]]:
    for name, ink, ground in found:
        light, dark = sorted((_luminance(ink), _luminance(ground)), reverse=True)
        yield name, (light + 0.05) / (dark + 0.05)


def tab_to(page: Page, wanted: Locator, most: int = 80) -> None:
    """Press the tabulator until an element has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if wanted.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"{most} presses do not reach {wanted}")


def outline(element: Locator) -> tuple[str, float]:
    """Answer how the focus on an element is drawn: its style, and its width in pixels."""
    style: dict[str, Any] = element.evaluate(
        "element => ({style: getComputedStyle(element).outlineStyle,"
        " width: getComputedStyle(element).outlineWidth})"
    )
    return style["style"], float(style["width"].removesuffix("px"))


def _luminance(colour: str) -> float:
    """Answer the relative luminance of ``rgb(…)``, as the accessibility guidelines define it."""
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (int(number) / 255 for number in re.findall(r"\d+", colour)[:3])
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
