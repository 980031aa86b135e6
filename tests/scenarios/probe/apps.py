"""The app."""

from __future__ import annotations

import os
from pathlib import Path

from django.apps import AppConfig
from django.db import connection  # noqa: TID251 - to be open where it should not


class ProbeConfig(AppConfig):
    name = "tests.scenarios.probe"
    label = "probe"

    def ready(self) -> None:
        """Connect while the app is loaded, as careless projects do."""
        if "PROBE_CONNECTS" in os.environ:
            connection.ensure_connection()
            (Path(os.environ["PROBE_FOLDER"]) / "connected").touch()
