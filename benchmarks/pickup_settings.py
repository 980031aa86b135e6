"""The test project with the job that is picked up."""

from __future__ import annotations

from testproject.settings import *  # noqa: F403
from testproject.settings import INSTALLED_APPS as OF_THE_PROJECT

DEBUG = False
INSTALLED_APPS = [*OF_THE_PROJECT, "benchmarks.pickup_app"]
