"""The test project with the soak's app, short leases, and a name for each process's connections."""

from __future__ import annotations

import os

from testproject.settings import *  # noqa: F403
from testproject.settings import DATABASES as OF_THE_PROJECT, INSTALLED_APPS as APPS

INSTALLED_APPS = [*APPS, "testproject.soak"]

DATABASES = {
    "default": OF_THE_PROJECT["default"]
    | {"OPTIONS": {"application_name": f"soak-{os.getpid()}", "connect_timeout": 5}}
}

ULTIMATE_JOBS = {
    "VISIBILITY_TIMEOUT": "5s",
    "POLL_INTERVAL": "50ms",
    "IDLE_POLL_MAX": "500ms",
    "RELAY_INTERVAL": "50ms",
}
