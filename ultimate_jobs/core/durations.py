"""Durations as people write them: ``"3d"``, ``"1h30m"``, ``"250ms"``, seconds, timedelta."""

from __future__ import annotations

import math
import re
from datetime import timedelta

Duration = timedelta | float | str

LONGEST = timedelta(days=3650)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


def duration(value: object, *, zero: bool = False) -> timedelta:
    """Read a duration.

    Args:
        value: a timedelta, a number of seconds, or text such as ``"1h30m"``.
        zero: whether nothing at all is a duration here.

    Raises:
        ValueError: it is no duration, not finite, negative, zero (unless allowed), or longer
            than ten years. The text says which, without the value.

    """
    found = _read(value)
    if found < timedelta(0) or (found == timedelta(0) and not zero):
        raise ValueError("must be longer than zero" if not zero else "must not be negative")
    if found > LONGEST:
        raise ValueError("must be at most ten years")
    return found


def _read(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError('must be a timedelta, seconds, or text like "3d", "1h30m", "250ms"')
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("must be finite")
    return _from_seconds(value)


def _from_text(text: str) -> timedelta:
    if _WHOLE.fullmatch(text) is None:
        raise ValueError('must read like "3d", "1h30m" or "250ms"')
    return _from_seconds(sum(float(n) * _UNITS[unit] for n, unit in _PART.findall(text)))


def _from_seconds(seconds: float) -> timedelta:
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        raise ValueError("must be at most ten years") from None
