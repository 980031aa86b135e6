"""The app."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

from django.apps import AppConfig
from django.db import connection  # noqa: TID251 - to be open where it should not
from django.utils import timezone


class ProbeConfig(AppConfig):
    name = "tests.scenarios.probe"
    label = "probe"

    def ready(self) -> None:
        """Connect while the app is loaded, as careless projects do; set the clock on the wall wrong."""
        wrong_by = float(os.environ.get("PROBE_CLOCK_WRONG_BY", "0"))
        if wrong_by:
            set_the_wall_wrong(wrong_by)
        if "PROBE_CONNECTS" in os.environ:
            connection.ensure_connection()
            (Path(os.environ["PROBE_FOLDER"]) / "connected").touch()


def set_the_wall_wrong(by: float) -> None:
    """Let this process see another time than the database's, by so many seconds."""
    seconds, nanoseconds = time.time, time.time_ns
    django_now = timezone.now  # noqa: TID251 - the clock that must not count
    vars(time).update(time=lambda: seconds() + by, time_ns=lambda: nanoseconds() + int(by * 1e9))
    vars(timezone).update(now=lambda: django_now() + timedelta(seconds=by))
