"""Stored texts as a page may show them: nothing invisible, nothing that turns the reading direction.

Templates escape markup. What escaping leaves as it is, is written out here: a control character or a
mark of direction shows as its code, so that a text cannot pretend to be another one.
"""

from __future__ import annotations

import json
import re
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _

Words = str | Promise
"""A text for people, translated at once or when it is shown."""

MOST_CHARS = 20_000
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """Write out what cannot be seen in a text; line feeds and tabs stay."""
    return _UNSEEN.sub(_code, text)


def harmless(value: Any) -> Any:
    """Do so with every text in a value, the keys of mappings included."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {harmless(key): harmless(item) for key, item in value.items()}
    if isinstance(value, list):
        return [harmless(item) for item in value]
    return value


def pretty(value: Any) -> str:
    """Write a JSON value over several lines, at most 20,000 characters of it."""
    return shortened(visible(json.dumps(value, indent=2, ensure_ascii=False)))


def shortened(text: str, most: int = MOST_CHARS) -> str:
    """Cut a text to its first characters and say how many are left out."""
    if len(text) <= most:
        return text
    more = _("%(n)s more characters") % {"n": f"{len(text) - most:,}"}
    return f"{text[:most]}\n… {more}"


def first_line(text: str | None, most: int = 120) -> str:
    """Answer the first line of an error, for a cell of a table."""
    line = (text or "").strip().partition("\n")[0]
    return line if len(line) <= most else f"{line[:most]}…"


def _code(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
