"""The test project with one more app, whose jobs leave traces outside the database."""

from __future__ import annotations

import os

from testproject.settings import *  # noqa: F403
from testproject.settings import DATABASES as CONNECTIONS, INSTALLED_APPS as OF_THE_PROJECT

INSTALLED_APPS = [*OF_THE_PROJECT, "tests.scenarios.probe"]

if "PROBE_KEEPS_CONNECTIONS" in os.environ:
    DATABASES = {"default": CONNECTIONS["default"] | {"CONN_MAX_AGE": None}}

ULTIMATE_JOBS = {
    "VISIBILITY_TIMEOUT": os.environ.get("VISIBILITY_TIMEOUT", "30s"),
    "HEARTBEAT_INTERVAL": os.environ.get("HEARTBEAT_INTERVAL"),  # type: ignore[dict-item]
    "DRAIN_TIMEOUT": os.environ.get("DRAIN_TIMEOUT", "25s"),
    "POLL_INTERVAL": "20ms",
    "IDLE_POLL_MAX": "100ms",
    "RELAY_INTERVAL": "1ms",
    "RELAY_BATCH_SIZE": 4,  # type: ignore[dict-item]
}
