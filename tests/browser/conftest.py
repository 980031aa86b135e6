"""A headless Chromium over the admin of a live server; no browser is ever downloaded."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest
from django.contrib.auth.models import Permission, User
from django.core.signals import request_finished, request_started
from django.test import Client
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    sync_playwright,
)
from pytest_django.live_server_helper import LiveServer

from tests.browser.scene import Scene, build
from tests.builders import wait_until

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE_MS = 20_000
ROOT = Path(__file__).resolve().parent.parent.parent
SCREENSHOTS = ROOT / "screenshots"
WIDE, PHONE = (1440, 900), (390, 844)

Open: TypeAlias = Callable[..., Page]


def pytest_addoption(parser: pytest.Parser) -> None:
    """``pytest tests/browser --readme-images`` takes the pictures of the README anew."""
    parser.addoption("--readme-images", action="store_true", help="write docs/images")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder starts processes and takes its time."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(180))


@pytest.fixture(scope="module")
def browser(django_db_setup: None) -> Iterator[Browser]:
    """Start the Chromium of this machine, or skip.

    Playwright keeps an event loop on this thread, where Django refuses to query unless it is told
    not to; tests of other modules find the thread as it was.
    """
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"none of these is installed: {', '.join(PROGRAMS)}")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        started = playwright.chromium.launch(executable_path=program, args=arguments)
        yield started
        started.close()


@pytest.fixture
def readme_images(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Answer where the pictures of the README go: nowhere in particular, unless asked for."""
    wanted = request.config.getoption("--readme-images", default=False)
    return ROOT / "docs" / "images" if wanted else tmp_path


@pytest.fixture
def scene(browser: Browser, transactional_db: None) -> Scene:
    return build()


@pytest.fixture
def operator(browser: Browser, transactional_db: None) -> User:
    """Somebody who may do everything."""
    return User.objects.create_superuser("ada", password="irrelevant")


@pytest.fixture
def viewer(browser: Browser, transactional_db: None) -> User:
    """Somebody who may look at everything of ours, and do nothing."""
    user = User.objects.create_user("vera", password="irrelevant", is_staff=True)
    user.user_permissions.set(
        Permission.objects.filter(
            content_type__app_label="ultimate_jobs", codename__startswith="view_"
        )
    )
    return user


@contextmanager
def answered() -> Iterator[None]:
    """Wait, after the block, until the server has answered everything that it was asked.

    A thread answers one request at a time. What it was asked before the block may end inside.
    """
    answering: set[int] = set()

    def began(**kwargs: object) -> None:
        answering.add(threading.get_ident())

    def ended(**kwargs: object) -> None:
        answering.discard(threading.get_ident())

    request_started.connect(began)
    request_finished.connect(ended)
    try:
        yield
        wait_until(lambda: not answering, what="the last answer")
    finally:
        request_started.disconnect(began)
        request_finished.disconnect(ended)


@pytest.fixture
def open_page(browser: Browser, live_server: LiveServer) -> Iterator[Open]:
    """Open pages as a user; a dialog, a console error or an uncaught error fails the test."""
    wrong: list[str] = []
    with answered(), ExitStack() as stack:

        def opened(
            path: str,
            user: User,
            *,
            size: tuple[int, int] = WIDE,
            scheme: str = "light",
            script: bool = True,
            before: Callable[[Page], object] = lambda page: None,
        ) -> Page:
            context = browser.new_context(
                viewport={"width": size[0], "height": size[1]},
                color_scheme="dark" if scheme == "dark" else "light",
                java_script_enabled=script,
                reduced_motion="reduce",
                base_url=live_server.url,
            )
            stack.callback(context.close)
            context.set_default_timeout(PATIENCE_MS)
            context.route("**/favicon.ico", lambda route: route.fulfill(status=204))
            _sign_in(context, live_server, user)
            page = context.new_page()
            _listen(page, wrong)
            before(page)
            page.goto(path)
            return page

        yield opened
    assert wrong == []


def _sign_in(context: BrowserContext, live_server: LiveServer, user: User) -> None:
    client = Client()
    client.force_login(user)
    name = "sessionid"
    context.add_cookies(
        [{"name": name, "value": client.cookies[name].value, "url": live_server.url}]
    )


def _listen(page: Page, wrong: list[str]) -> None:
    def said(message: ConsoleMessage) -> None:
        if message.type == "error":
            wrong.append(f"console: {message.text} ({message.location.get('url')})")

    def asked(dialog: Dialog) -> None:
        wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("console", said)
    page.on("dialog", asked)
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
