"""Log events: a name, fields, one line. Fields name things and never quote payloads."""

from __future__ import annotations

import logging

logger = logging.getLogger("ultimate_jobs")


def event(level: int, name: str, /, **fields: object) -> None:
    """Write one event; handlers find its name and fields on the record as ``event``, ``fields``."""
    if not logger.isEnabledFor(level):
        return
    said = "".join(f" {key}={value}" for key, value in fields.items() if value is not None)
    logger.log(level, "%s%s", name, said, extra={"event": name, "fields": fields}, stacklevel=2)
