"""Every setting in force, and where its value comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Any

from ultimate_jobs.conf import Settings, declared_settings, get_settings

SETTING, DEFAULT = "setting", "default"


def effective(said: Mapping[str, tuple[object, str]]) -> list[dict[str, Any]]:
    """Answer every setting with the value in force and its origin.

    Args:
        said: what a command line or the environment says, by the setting's name in lower case, each
            with where it says so; it goes before the setting, and that before the default.

    Raises:
        ConfigInvalid: the settings hold a mistake.

    """
    settings, declared = get_settings(), declared_settings()
    return [
        _effective(field.name, getattr(settings, field.name), declared, said)
        for field in fields(Settings)
    ]


def _effective(
    name: str,
    value: object,
    declared: Mapping[str, object],
    said: Mapping[str, tuple[object, str]],
) -> dict[str, Any]:
    origin = SETTING if name.upper() in declared else DEFAULT
    value, origin = said.get(name, (value, origin))
    return {"setting": name.upper(), "value": _plain(value), "origin": origin}


def _plain(value: object) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return [_plain(part) for part in value] if isinstance(value, tuple | list) else value
