"""The record of an exception, made without trusting it.

An exception may refuse to be printed, be enormous, chain to itself or hold thousands of others.
Whatever it is, it becomes bounded, storable text: the first line says type and message, the rest
is the traceback, then causes and members.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from types import TracebackType

from ultimate_jobs.core.jsonform import storable_text

_PACKAGE = __file__.removesuffix("core/failure.py")
MAX_ERROR_CHARS = 16_384
_MAX_MESSAGE_CHARS = 2_000
_MAX_FRAMES = 20
_MAX_LINKS = 8
_MAX_MEMBERS = 5
_MAX_NOTES = 5


def describe(error: BaseException) -> str:
    """Write down an exception: type, message, notes, traceback, causes and members.

    At most ``MAX_ERROR_CHARS`` characters, always storable. Printing the exception is tried once
    and any failure of it is written instead; a ``__str__`` that blocks, blocks.
    """
    blocks: list[str] = []
    room = MAX_ERROR_CHARS
    for block in _blocks(error):
        blocks.append(block)
        room -= len(block)
        if room <= 0:
            break
    return storable_text("\n".join(blocks), MAX_ERROR_CHARS)


def headline(error: BaseException) -> str:
    """Write the first line of ``describe``: the type and the message."""
    return storable_text(_headline(error), _MAX_MESSAGE_CHARS)


def where(error: BaseException) -> str:
    """Name the innermost frame as ``file:line``; empty when there is none."""
    last = _frames(error.__traceback__)[-1:]
    return f"{last[0].filename}:{last[0].lineno}" if last else ""


def _blocks(error: BaseException) -> Iterator[str]:
    seen: set[int] = set()
    link: BaseException | None = error
    title = ""
    while link is not None and len(seen) < _MAX_LINKS:
        if id(link) in seen:
            yield "(the chain of causes returns to an exception above)"
            return
        seen.add(id(link))
        yield title + _block(link)
        yield from _members(link)
        link, title = _next_link(link)
    if link is not None:
        yield f"(more than {_MAX_LINKS} causes; the rest is left out)"


def _next_link(error: BaseException) -> tuple[BaseException | None, str]:
    if error.__cause__ is not None:
        return error.__cause__, "Caused by: "
    if error.__suppress_context__:
        return None, ""
    return error.__context__, "While handling: "


def _block(error: BaseException) -> str:
    lines = [_headline(error), *_notes(error)]
    lines += [
        f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}'
        + (f"\n    {frame.line}" if frame.line else "")
        for frame in _frames(error.__traceback__)
    ]
    return "\n".join(lines)


def _members(error: BaseException) -> Iterator[str]:
    if not isinstance(error, BaseExceptionGroup):
        return
    members = error.exceptions
    for n, member in enumerate(members[:_MAX_MEMBERS], start=1):
        yield f"Member {n} of {len(members)}: {_block(member)}"
    if len(members) > _MAX_MEMBERS:
        yield f"({len(members) - _MAX_MEMBERS} more members are left out)"


def _headline(error: BaseException) -> str:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else _dotted(kind)
    message = _printed(error)
    return f"{name}: {message}" if message else name


def _dotted(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _printed(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException as second:  # noqa: BLE001 - whatever printing raises must not escape
        return f"(its text cannot be printed: __str__ raised {type(second).__qualname__})"
    return text if len(text) <= _MAX_MESSAGE_CHARS else storable_text(text, _MAX_MESSAGE_CHARS)


def _notes(error: BaseException) -> list[str]:
    notes = getattr(error, "__notes__", None)
    if not isinstance(notes, list):
        return []
    return [storable_text(n, _MAX_MESSAGE_CHARS) for n in notes[:_MAX_NOTES] if isinstance(n, str)]


def _frames(tb: TracebackType | None) -> list[traceback.FrameSummary]:
    """Answer the innermost frames, this package's own left out where others are left."""
    try:
        frames = list(traceback.StackSummary.extract(traceback.walk_tb(tb)))
    except Exception:  # noqa: BLE001 - a source file that cannot be read must not hide the error
        return []
    foreign = [frame for frame in frames if not frame.filename.startswith(_PACKAGE)]
    return (foreign or frames)[-_MAX_FRAMES:]
