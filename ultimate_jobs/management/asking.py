"""Asking before something is changed that cannot be changed back."""

from __future__ import annotations

import sys

from ultimate_jobs.errors import NotConfirmed


def ask(what: str) -> None:
    """Say what would be done, and go on only when the terminal says yes.

    Raises:
        NotConfirmed: there is no terminal, or it said something else.

    """
    if not sys.stdin.isatty():
        raise NotConfirmed(what)
    sys.stderr.write(f"{what} Go on? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise NotConfirmed("Nothing was changed.")
