"""Every setting in force, and where its value comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from typing import Any

from ultimate_jobs.conf import Settings, declared_settings, get_settings, queues_from_environment

FLAG, ENVIRONMENT, SETTING, DEFAULT = "flag", "environment", "setting", "default"


def effective(flags: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
    """Answer every setting with the value in force and its origin.

    A flag goes before the environment, that before the setting, that before the default.

    Args:
        flags: values that a command line gives, by the setting's name in lower case.

    Raises:
        ConfigInvalid: the settings or the environment hold a mistake.

    """
    layers: list[tuple[str, Mapping[str, object]]] = [
        (FLAG, {name: value for name, value in (flags or {}).items() if value is not None}),
        (ENVIRONMENT, _from_environment()),
    ]
    settings, declared = get_settings(), declared_settings()
    return [
        _effective(field.name, getattr(settings, field.name), declared, layers)
        for field in fields(Settings)
    ]


def _from_environment() -> Mapping[str, object]:
    queues = queues_from_environment()
    return {} if queues is None else {"queues": queues}


def _effective(
    name: str,
    value: object,
    declared: Mapping[str, object],
    layers: list[tuple[str, Mapping[str, object]]],
) -> dict[str, Any]:
    origin = SETTING if name.upper() in declared else DEFAULT
    for above, values in reversed(layers):
        if name in values:
            origin, value = above, values[name]
    return {"setting": name.upper(), "value": _plain(value), "origin": origin}


def _plain(value: object) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    return list(value) if isinstance(value, tuple | list) else value
