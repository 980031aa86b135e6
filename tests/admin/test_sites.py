"""Where the pages are: in any admin site that has them, and nowhere without Django's admin."""

from __future__ import annotations

import subprocess
import sys

import pytest
from django.test import override_settings
from django.urls import clear_url_caches

from testproject.postgres.server import ROOT
from tests.admin import another_site
from tests.admin.people import seen, somebody
from tests.builders import a_job
from ultimate_jobs.admin import register
from ultimate_jobs.core.states import JobState

WITHOUT_ADMIN = """
import sys
import django
from django.conf import settings
from django.core.management import call_command

settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "ultimate_jobs"],
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "none"}},
    USE_TZ=True,
)
django.setup()
call_command("check")
assert not [name for name in sys.modules if name.startswith("ultimate_jobs.admin")]
assert "django.contrib.admin" not in sys.modules
"""


@pytest.mark.django_db
def test_another_site_has_the_pages_at_its_own_addresses() -> None:
    row = a_job(JobState.DEAD, last_error="ValueError: no")
    client = somebody(superuser=True)
    base = "/backstage/ultimate_jobs"

    with override_settings(ROOT_URLCONF=another_site.__name__):
        clear_url_caches()
        for page in (
            "overview/",
            "job/",
            f"job/{row.id}/change/",
            f"job/{row.id}/act/retry/",
            "job/bulk/retry/?which=matching&state=dead",
            "job/dead/",
            "pause/",
            "worker/",
            "outboxentry/",
        ):
            answer = client.get(f"{base}/{page}")
            assert answer.status_code == 200, page
            links = [str(a.get("href")) for a in seen(answer).all("a")]
            assert links
            assert all(link.startswith(("/backstage/", "?", "#", "/")) for link in links)
            assert not [link for link in links if link.startswith("/admin/")], page
        done = client.post(f"{base}/job/{row.id}/act/retry/")
        assert done["Location"] == f"{base}/job/{row.id}/change/"
    clear_url_caches()


def test_pages_are_added_once() -> None:
    before = dict(another_site.site._registry)

    register(another_site.site)

    assert another_site.site._registry == before


@pytest.mark.scenario
def test_without_the_admin_nothing_of_it_is_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_ADMIN],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
