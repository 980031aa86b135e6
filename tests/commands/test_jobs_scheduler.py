"""``manage.py jobs_scheduler``: its options."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from tests.commands.manage import manage

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_wrong_option_exits_2() -> None:
    answer = manage("jobs_scheduler", "--tick", "7")

    assert answer.code == 2
    assert "unrecognized arguments" in answer.err


def test_wrong_settings_exit_1_with_every_mistake(settings: Settings) -> None:
    settings.ULTIMATE_JOBS = {"DONE_RETENTION": "never", "MAINTENANCE_QUEUE": ""}

    answer = manage("jobs_scheduler")

    assert answer.code == 1
    assert "DONE_RETENTION" in answer.err
    assert "MAINTENANCE_QUEUE" in answer.err
