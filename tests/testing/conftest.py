"""The fixture of the kit, as the plugin gives it to a project."""

from __future__ import annotations

from ultimate_jobs.testing.plugin import jobs

__all__ = ["jobs"]
