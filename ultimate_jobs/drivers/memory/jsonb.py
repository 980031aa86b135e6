"""JSON text as ``jsonb`` gives it back."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from django.db import DataError


def jsonb(text: str) -> str:
    """Answer the text that PostgreSQL would answer after storing ``text``.

    Keys are ordered by their length and then their bytes, the last of equal keys stays, numbers are
    decimals without an exponent.

    Raises:
        django.db.DataError: it is no JSON, or holds what cannot be stored.

    """
    try:
        value = json.loads(
            text, parse_float=Decimal, parse_int=Decimal, parse_constant=_refuse_constant
        )
        return _written(value)
    except ValueError as error:
        raise DataError("invalid input syntax for type json") from error


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _written(value: Any) -> str:
    if isinstance(value, dict):
        members = sorted(value.items(), key=lambda member: _stored_order(member[0]))
        return "{" + ", ".join(f"{_text(k)}: {_written(v)}" for k, v in members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    if isinstance(value, Decimal):
        return format(value or abs(value), "f")
    if isinstance(value, str):
        return _text(value)
    return json.dumps(value)


def _stored_order(key: str) -> tuple[int, bytes]:
    stored = key.encode("utf-8")
    return len(stored), stored


def _text(value: str) -> str:
    if "\x00" in value:
        raise ValueError("U+0000")
    value.encode("utf-8")
    return json.dumps(value, ensure_ascii=False)
