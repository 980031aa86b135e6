"""What a value becomes when it is stored, and what cannot be stored.

PostgreSQL's ``jsonb`` keeps numbers as decimals and keys in an order of its own, and refuses some
text. ``canonical`` applies the same changes beforehand, so a value handed on at once equals the
value read back later, type and order included.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import cast
from uuid import UUID

import msgspec

JSONValue = None | bool | int | float | str | list["JSONValue"] | dict[str, "JSONValue"]

MAX_DEPTH = 200
MAX_INTEGER_BITS = 13_000
_CUT = " … (cut)"

_Path = str | tuple["_Path", str | int | None]
"""A way to a value, spelled out only when it is named: where it is in, and which part of that."""


class NotStorable(ValueError):
    """A value without a stored form. ``path`` leads to it; ``why`` never repeats it."""

    def __init__(self, path: str, why: str) -> None:
        self.path = path if len(path) <= 80 else f"{path[:80]}…"
        super().__init__(f"{self.path} {why}")
        self.why = why


def canonical(value: object, path: str = "$") -> JSONValue:
    """Return the stored form of ``value`` as plain Python values.

    Tuples become lists; decimals, UUIDs, dates, times and spans become text; dataclasses, structs
    and models become mappings; an enum member becomes its value; the keys of a mapping take
    their stored order.

    Raises:
        NotStorable: there is no stored form, or it would lose something.

    """
    return _canonical(value, path, 0)


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_decode = msgspec.json.Decoder().decode


def dumps(value: JSONValue) -> str:
    """Write a canonical value as JSON text."""
    return _encode(value)


def loads(text: str | bytes) -> JSONValue:
    """Read stored JSON text."""
    try:
        return cast("JSONValue", _decode(text))
    except msgspec.DecodeError:  # numbers past every float, for one
        return cast("JSONValue", json.loads(text))


def storable_text(text: str, limit: int) -> str:
    """Make any text storable: escape what PostgreSQL refuses and cut it to ``limit`` characters."""
    if len(text) > limit:
        text = text[: limit - len(_CUT)] + _CUT
    if is_storable_text(text):
        return text
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def _canonical(value: object, path: _Path, depth: int) -> JSONValue:
    if value is None or value is True or value is False:
        return value
    if depth > MAX_DEPTH:
        raise NotStorable(
            _spelled(path), f"is nested more than {MAX_DEPTH} deep, or contains itself."
        )
    exactly = _EXACTLY.get(type(value))
    if exactly is not None:
        return exactly(value, path, depth)
    for kind, convert in _CONVERTERS:
        if isinstance(value, kind):
            return convert(value, path, depth)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
        return _mapping(dict(fields), path, depth)
    dump = getattr(type(value), "model_dump", None)
    if callable(dump):
        return _canonical(dump(value, mode="json"), path, depth + 1)
    raise NotStorable(_spelled(path), f"is a {type(value).__qualname__}, which has no JSON form.")


def _spelled(path: _Path) -> str:
    if isinstance(path, str):
        return path
    parent, part = path
    if part is None:
        return f"a key of {_spelled(parent)}"
    return _spelled(parent) + (f"[{part}]" if isinstance(part, int) else f".{part}")


def _text(value: str, path: _Path, depth: int) -> JSONValue:
    plain = value if type(value) is str else str.__str__(value)
    if not is_storable_text(plain):
        raise NotStorable(
            _spelled(path), "holds U+0000 or half a surrogate pair, which cannot be stored."
        )
    return plain


def is_storable_text(text: str) -> bool:
    """Answer whether PostgreSQL can store a text."""
    if "\x00" in text:
        return False
    try:
        return text.isascii() or bool(text.encode("utf-8"))
    except UnicodeEncodeError:
        return False


def _integer(value: int, path: _Path, depth: int) -> JSONValue:
    if value.bit_length() > MAX_INTEGER_BITS:
        raise NotStorable(
            _spelled(path), f"is a whole number of more than {MAX_INTEGER_BITS} bits."
        )
    return int(value)


def _float(value: float, path: _Path, depth: int) -> JSONValue:
    if not math.isfinite(value):
        raise NotStorable(_spelled(path), "is not a finite number.")
    if value == 0:
        return 0.0
    # From 1e16 on, repr() and jsonb write no fraction, and the number is read back as an int.
    return int(Decimal(repr(float(value)))) if abs(value) >= 1e16 else float(value)


def _list(value: list[object] | tuple[object, ...], path: _Path, depth: int) -> JSONValue:
    return [_canonical(item, (path, n), depth + 1) for n, item in enumerate(value)]


def _mapping(value: Mapping[object, object], path: _Path, depth: int) -> JSONValue:
    plain: dict[str, JSONValue] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise NotStorable(
                _spelled(path), f"has a key of type {type(key).__qualname__}; keys are text."
            )
        name = cast("str", _text(key, (path, None), depth))
        plain[name] = _canonical(item, (path, name), depth + 1)
    return dict(sorted(plain.items(), key=_stored_order)) if len(plain) > 1 else plain


def _stored_order(item: tuple[str, JSONValue]) -> tuple[int, bytes]:
    key = item[0].encode("utf-8")
    return len(key), key


def _moment(value: date | time, path: _Path, depth: int) -> JSONValue:
    return value.isoformat()


def _decimal(value: Decimal, path: _Path, depth: int) -> JSONValue:
    if not value.is_finite():
        raise NotStorable(_spelled(path), "is not a finite number.")
    return str(value)


def _uuid(value: UUID, path: _Path, depth: int) -> JSONValue:
    return str(value)


def _enum(value: Enum, path: _Path, depth: int) -> JSONValue:
    return _canonical(value.value, path, depth + 1)


def _span(value: timedelta, path: _Path, depth: int) -> JSONValue:
    return cast("str", msgspec.to_builtins(value))


def _struct(value: msgspec.Struct, path: _Path, depth: int) -> JSONValue:
    fields = msgspec.structs.fields(value)
    named: dict[object, object] = {f.encode_name: getattr(value, f.name) for f in fields}
    config = value.__struct_config__
    if config.tag is not None:
        named[config.tag_field] = config.tag
    return _mapping(named, path, depth)


_Convert = Callable[..., JSONValue]
_CONVERTERS: tuple[tuple[type | tuple[type, ...], _Convert], ...] = (
    (Enum, _enum),
    (str, _text),
    (int, _integer),
    (float, _float),
    ((list, tuple), _list),
    (Mapping, _mapping),
    ((datetime, date, time), _moment),
    (Decimal, _decimal),
    (UUID, _uuid),
    (timedelta, _span),
    (msgspec.Struct, _struct),
)
_EXACTLY: dict[type, _Convert] = {
    str: _text,
    int: _integer,
    float: _float,
    list: _list,
    tuple: _list,
    dict: _mapping,
}
"""The same for the types that most values are of."""
