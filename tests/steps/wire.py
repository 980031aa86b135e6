"""What travels to the server: every exchange of every connection of this process, by name.

    with exchanges() as seen:
        work()
    assert seen == ["CLAIM", "STEP_PUT", "SETTLE", "CLAIM"]

A statement of this package is called after its constant, both that settle SETTLE, COMMIT and ROLLBACK by those words, any
other statement by its first word. What a connection says once, when it is opened, is left out, and
so are the signs of life of a worker, which come in their own time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import psycopg

from ultimate_jobs.drivers.postgres import sql
from ultimate_jobs.drivers.postgres.connection import native

OURS = {
    native(text)[0].decode(): name.removesuffix("_DONE")
    for name, text in vars(sql).items()
    if name.isupper()
}
_SPOKEN = {"_commit_gen": "COMMIT", "_rollback_gen": "ROLLBACK"}
GREETING = "a greeting"
ASIDE = frozenset({GREETING, "HEARTBEAT", "FAREWELL"})
_GREETINGS = ("set_config('TimeZone'", "pg_backend_pid()", "plan_cache_mode", "DISCARD PLANS")

Say = Callable[[], Any]
Hook = Callable[[str, Say], Any]
"""Told of an exchange before it happens; it happens when the hook says it."""


@contextmanager
def hooked(hook: Hook) -> Iterator[None]:
    """Pass every exchange with the server to ``hook`` inside the block."""
    plain = psycopg.Connection.wait

    def wait(self: Any, generator: Any, *args: Any, **options: Any) -> Any:
        return hook(_named(generator), lambda: plain(self, generator, *args, **options))

    with patch.object(psycopg.Connection, "wait", wait):
        yield


@contextmanager
def exchanges() -> Iterator[list[str]]:
    """Collect the names of what is exchanged inside the block, in order."""
    seen: list[str] = []
    lock = threading.Lock()

    def note(name: str, say: Say) -> Any:
        if name not in ASIDE:
            with lock:
                seen.append(name)
        return say()

    with hooked(note):
        yield seen


def _named(generator: Any) -> str:
    spoken = _SPOKEN.get(generator.gi_code.co_name)
    if spoken is not None:
        return spoken
    query = (generator.gi_frame.f_locals if generator.gi_frame else {}).get("query")
    text = query.decode() if isinstance(query, bytes) else query
    if not isinstance(text, str):
        return GREETING
    if text not in OURS and any(words in text for words in _GREETINGS):
        return GREETING
    return OURS.get(text) or text.split(maxsplit=1)[0].upper()
