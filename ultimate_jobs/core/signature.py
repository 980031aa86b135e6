"""What errors of one kind have in common: the first line, without what differs from case to case."""

from __future__ import annotations

import re

MAX_SIGNATURE_CHARS = 200
_NO_ERROR = "(no error)"
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.){0,500}'|"(?:[^"\\]|\\.){0,500}"|`[^`]{0,500}`""")
_CHANGING = (
    (re.compile(r"\b[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE), "<url>"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\S+@\S+\.\w+"), "<address>"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE), "<n>"),
    (re.compile(r"\b(?=\w*\d)(?=\w*[a-f])[0-9a-f]{8,}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\d[\d.,:_/-]*\d|\d"), "<n>"),
)


def signature(error: str | None) -> str:
    """Answer what identifies the kind of an error: its type and the constant part of its message.

    Quoted text, addresses, ids and numbers are replaced by what they are. At most 200 characters;
    the same error with other values has the same signature.
    """
    line = next((line for line in (error or "").splitlines() if line.strip()), "")[:2_000]
    kind, colon, message = line.partition(": ")
    if not re.fullmatch(r"[\w.]+", kind):
        kind, colon, message = "", "", line
    text = _QUOTED.sub("<text>", message)
    for changing, what in _CHANGING:
        text = changing.sub(what, text)
    return f"{kind}{colon}{text}".strip()[:MAX_SIGNATURE_CHARS] or _NO_ERROR


def constant_part(signed: str) -> str | None:
    """Answer the longest text that every error of a signature holds; ``None``: there is hardly any."""
    if signed == _NO_ERROR:
        return None
    parts = re.split(r"<(?:text|url|id|address|n)>|\[redacted\]", signed)
    longest = max((part.strip() for part in parts), key=len)
    return longest if len(longest) >= _SHORTEST_PART else None


_SHORTEST_PART = 4
