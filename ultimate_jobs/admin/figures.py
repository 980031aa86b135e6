"""Numbers as an operator reads them."""

from __future__ import annotations

from django.utils.translation import gettext as _

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def age(seconds: float | None) -> str:
    """Write a span in its two largest units: ``42 s``, ``3 min 5 s``, ``2 d 4 h``; none is a dash."""
    if seconds is None:
        return "\N{EN DASH}"
    left = max(int(seconds), 0)
    for place, (size, unit) in enumerate(_UNITS):
        if left < size:
            continue
        words = [f"{left // size} {unit}"]
        if place + 1 < len(_UNITS):
            smaller, its_unit = _UNITS[place + 1]
            rest = left % size // smaller
            words += [f"{rest} {its_unit}"] if rest else []
        return " ".join(words)
    return "0 s"


def bodies(running: int, concurrency: int) -> str:
    """Write how many bodies run of those that may at once."""
    if not concurrency:
        return str(running)
    return _("%(n)s of %(most)s") % {"n": running, "most": concurrency}


def at_least(count: int, *, capped: bool) -> str:
    """Write a count with its thousands apart; a capped one as what it is no less than."""
    most = 10_000
    return f"{most:,}+" if capped and count > most else f"{count:,}"
