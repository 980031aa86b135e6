"""The test project in debugging mode, with the benchmarks' jobs and a worker that looks often."""

from __future__ import annotations

from testproject.settings import *  # noqa: F403
from testproject.settings import INSTALLED_APPS as OF_THE_PROJECT

DEBUG = True
INSTALLED_APPS = [*OF_THE_PROJECT, "benchmarks.pickup_app"]
ULTIMATE_JOBS = {"POLL_INTERVAL": "10ms", "IDLE_POLL_MAX": "10ms", "IDLE_POLL_MAX_WAKE": "10ms"}
