"""What can go wrong with the embedded server."""

from __future__ import annotations


class PostgresFailed(Exception):
    """The server cannot do what was asked; the message says why and what to do."""
