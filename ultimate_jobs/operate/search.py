"""Where a selection is looked for, so that no search reads more than a bounded number of rows."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from uuid import UUID

from ultimate_jobs.core.selection import UNSUCCESSFUL, Chosen, Look, Place, Selection
from ultimate_jobs.core.states import LIVE
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.errors import JobUnknown, PageInvalid

WINDOW = 10_000
"""Rows that one search looks at."""

TEXT_WINDOW = 2_000
"""Rows whose error texts one search reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search found, newest first.

    ``older`` and ``newer`` are the cursors at which the search goes on. With ``complete`` false the
    window ended before the limit was reached and before the rows were.
    """

    ids: tuple[UUID, ...]
    older: str | None
    newer: str | None
    searched: int
    complete: bool


def search(
    wanted: Selection,
    *,
    limit: int | None = None,
    after: str | None = None,
    before: str | None = None,
    crowded: bool = False,
    window: int | None = None,
) -> Found:
    """Find at most ``limit`` jobs, the newest of those after (older than) or before a cursor.

    Without a limit, all are found that one search looks at; ``window`` lets it look at fewer rows.

    One statement, and a second when more jobs live than it may look at; ``crowded`` says so before.

    Raises:
        PageInvalid: the cursor was not given out by this list.

    """
    cursor = _cursor(wanted, after if before is None else before)
    limit = WINDOW if limit is None else limit
    source = _source(wanted)
    if source == "live" and crowded:
        source = "created"
    look = _look(wanted, limit, cursor, source, backwards=before is not None)
    look = replace(look, window=min(look.window, window or look.window))
    chosen = get_driver().operator.choose(wanted, look)
    if look.source == "live" and chosen.seen >= look.window:
        # More jobs live than a search may look at: the newest of all are looked at instead.
        look = _look(wanted, limit, cursor, "created", backwards=look.backwards)
        chosen = get_driver().operator.choose(wanted, look)
    if cursor is not None and cursor.instant is None and not chosen.cursor_fits:
        raise PageInvalid("The cursor names no job of this list.")
    return _found(wanted, look, chosen, limit)


def is_crowded(live: int) -> bool:
    """Answer whether more jobs live than a search may look at one by one."""
    return live >= WINDOW


def _look(
    wanted: Selection,
    limit: int,
    cursor: Place | None,
    source: str,
    *,
    backwards: bool,
) -> Look:
    window = TEXT_WINDOW if wanted.error_like is not None else WINDOW
    return Look(
        source=source,
        limit=limit + 1,
        window=limit + 1 if _reads_only_what_it_finds(wanted, source) else window,
        cursor=cursor,
        backwards=backwards,
    )


def _source(wanted: Selection) -> str:
    states = set(wanted.states)
    named = {"ids": wanted.ids, "key": wanted.key, "related": wanted.related}
    for source, value in named.items():
        if value:
            return source
    if states and states <= UNSUCCESSFUL:
        return "ended"
    return "live" if states and states <= LIVE else "created"


def _reads_only_what_it_finds(wanted: Selection, source: str) -> bool:
    asked = wanted.words().keys() - {"older_than_seconds", "newer_than_seconds"}
    if source == "ended":
        return asked == {"states"} and set(wanted.states) == UNSUCCESSFUL
    return source == "created" and not asked


def _found(wanted: Selection, look: Look, chosen: Chosen, limit: int) -> Found:
    more = len(chosen.places) > limit
    page = chosen.places
    if more:
        page = page[1:] if look.backwards else page[:limit]
    cut = not more and chosen.seen >= look.window
    near, far = (page[-1:], page[:1]) if look.backwards else (page[:1], page[-1:])
    onward = far[0] if more else None
    if cut and look.source in _ORDERED:
        onward = chosen.last
    back = near[0] if near and look.cursor is not None else look.cursor
    older, newer = (back, onward) if look.backwards else (onward, back)
    return Found(
        ids=tuple(place.id for place in page),
        older=_spelled(wanted, older),
        newer=_spelled(wanted, newer),
        searched=chosen.seen,
        complete=not cut,
    )


_ORDERED = frozenset({"created", "ended"})
"""Sources that are read in the order of the list, so that a search can go on where one ended."""


def _cursor(wanted: Selection, text: str | None) -> Place | None:
    """Read a cursor: the id of a listed job, or what a page named as the one beside it."""
    if text is None:
        return None
    job, *rest = text.split(".")
    try:
        cursor = job_uuid(job)
    except JobUnknown:
        raise PageInvalid("The cursor names no job of this list.") from None
    if not rest:
        return Place(cursor)
    instant, _, digest = ".".join(rest).partition(".")
    if not instant.isdecimal() or len(instant) > _MOST_DIGITS or digest != _digest(wanted):
        raise PageInvalid("The cursor belongs to another list.")
    return Place(cursor, int(instant))


_MOST_DIGITS = 17


def _spelled(wanted: Selection, place: Place | None) -> str | None:
    if place is None:
        return None
    if place.instant is None:
        return str(place.id)
    return f"{place.id}.{place.instant}.{_digest(wanted)}"


def _digest(wanted: Selection) -> str:
    words = {name: word for name, word in wanted.words().items() if name not in ("ids", "states")}
    text = json.dumps(words, sort_keys=True)
    return hashlib.blake2s(text.encode(), digest_size=4).hexdigest()


def job_uuid(text: str) -> UUID:
    """Read the id of a job.

    Raises:
        JobUnknown: it is none.

    """
    try:
        return UUID(text)
    except ValueError:
        raise JobUnknown("This is no id of a job.") from None
