"""What of a stored value must not be shown, found by its JSON Schema and by the names of its keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ultimate_jobs.core.jsonform import JSONValue

CONCEALED = "[redacted]"
SENSITIVE: Final = msgspec.Meta(extra_json_schema={"sensitive": True})
"""Marks a field whose value nobody is shown: ``card: Annotated[str, SENSITIVE]``."""

_SHORTEST = 3
_SHORT = 8
_MOST_REFERENCES = 50


@dataclass(frozen=True, slots=True)
class Masked:
    """A value without what must not be shown, and the texts that were taken out."""

    value: JSONValue
    secrets: frozenset[str]


def mask(value: JSONValue, schema: Mapping[str, Any], hides: Callable[[str], bool]) -> Masked:
    """Take out what the schema declares sensitive, and what stands under a key that ``hides``.

    A node of the schema is sensitive with ``"sensitive": true``, ``"writeOnly": true`` or the format
    ``password``. Where a value may have one of several shapes, what one of them hides is hidden.
    """
    secrets: set[str] = set()
    walk = _Walk(schema, hides, secrets)
    return Masked(walk.masked(value, [schema]), frozenset(secrets))


def leaves(value: JSONValue) -> Iterator[str]:
    """Yield every text and number in a value, as text; those of less than 3 characters are left out."""
    if isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    elif value is not None and not isinstance(value, bool) and len(str(value)) >= _SHORTEST:
        yield str(value)


def without(text: str, secrets: frozenset[str]) -> str:
    """Take secrets out of a text, as they are and as Python writes them in quotes.

    A short one goes only where it stands alone: ``123`` is not taken out of ``41234``.
    """
    spelled = {spelling for secret in secrets for spelling in (secret, repr(secret)[1:-1])}
    quoted = sorted((secret for secret in spelled if secret in text), key=len, reverse=True)
    return re.sub("|".join(map(_pattern, quoted)), CONCEALED, text) if quoted else text


def _pattern(secret: str) -> str:
    exact = re.escape(secret)
    return exact if len(secret) >= _SHORT else rf"(?<!\w){exact}(?!\w)"


@dataclass(frozen=True, slots=True)
class _Walk:
    root: Mapping[str, Any]
    hides: Callable[[str], bool]
    secrets: set[str]

    def masked(self, value: JSONValue, nodes: list[Mapping[str, Any]]) -> JSONValue:
        shapes = [shape for node in nodes for shape in self._shapes(node)]
        if any(_is_sensitive(shape) for shape in shapes):
            return self._conceal(value)
        if isinstance(value, dict):
            return {key: self._member(key, item, shapes) for key, item in value.items()}
        if isinstance(value, list):
            return [self.masked(item, _items(shapes, n)) for n, item in enumerate(value)]
        return value

    def _member(self, key: str, item: JSONValue, shapes: list[Mapping[str, Any]]) -> JSONValue:
        return self._conceal(item) if self.hides(key) else self.masked(item, _member(shapes, key))

    def _conceal(self, value: JSONValue) -> JSONValue:
        self.secrets.update(leaves(value))
        return CONCEALED

    def _shapes(self, node: object) -> Iterator[Mapping[str, Any]]:
        """Yield a node and everything that it refers to or may be instead."""
        waiting, seen = [node], 0
        while waiting and seen < _MOST_REFERENCES:
            one = waiting.pop()
            seen += 1
            if not isinstance(one, Mapping):
                continue
            yield one
            if isinstance(ref := one.get("$ref"), str):
                waiting.append(self._referred(ref))
            for several in ("anyOf", "oneOf", "allOf"):
                waiting += one.get(several) or []

    def _referred(self, ref: str) -> object:
        found: Any = self.root
        for part in ref.removeprefix("#/").split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, Mapping) else None
        return found


def _is_sensitive(shape: Mapping[str, Any]) -> bool:
    return (
        shape.get("sensitive") is True
        or shape.get("writeOnly") is True
        or shape.get("format") == "password"
    )


def _member(shapes: list[Mapping[str, Any]], key: str) -> list[Mapping[str, Any]]:
    found = []
    for shape in shapes:
        named = (shape.get("properties") or {}).get(key)
        found.append(shape.get("additionalProperties") if named is None else named)
    return [one for one in found if isinstance(one, Mapping)]


def _items(shapes: list[Mapping[str, Any]], place: int) -> list[Mapping[str, Any]]:
    found = []
    for shape in shapes:
        first = shape.get("prefixItems") or []
        found.append(first[place] if place < len(first) else shape.get("items"))
    return [one for one in found if isinstance(one, Mapping)]
