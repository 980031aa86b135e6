"""Threads of which one moves at a time: each goes on when it is told to, and then pauses again.

They share the connections of the thread that moves them, so that whatever they do happens in its
transaction. Who moves when is decided by nobody but the caller.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack

from django.db import connections

from ultimate_jobs.testing.door import Killed, connections_in_use

_here = threading.local()


class Strand:
    """Work on a thread of its own.

    Args:
        work: what it does, told of its strand; it ends by itself, or by ``Killed`` at a pause.

    """

    def __init__(self, work: Callable[[Strand], None]) -> None:
        self.place = ""
        self.ended = False
        self._work = work
        self._error: BaseException | None = None
        self._is_killed = False
        self._go = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self._shared = {c.alias: c for c in connections_in_use()}
        self._thread = threading.Thread(target=self._run, name="ultimate_jobs-strand", daemon=True)
        self._thread.start()

    def resume(self) -> None:
        """Let it go on to its next pause, or to its end.

        Raises:
            BaseException: what it was ended by, unless that was its death.

        """
        with ExitStack() as shared:
            for connection in self._shared.values():
                connection.inc_thread_sharing()
                shared.callback(connection.dec_thread_sharing)
            self._go.release()
            self._back.acquire()
        if self.ended:
            self._thread.join()
        if self._error is not None:
            raise self._error

    def kill(self) -> None:
        """End it where it is: every pause raises ``Killed`` from now on."""
        self._is_killed = True
        if not self.ended:
            self.resume()

    def pause(self, place: str) -> None:
        """Wait until it is told to go on. On its own thread."""
        if self._is_killed:
            raise Killed
        self.place = place
        self._back.release()
        self._go.acquire()
        if self._is_killed:
            raise Killed

    def refuse_the_dead(self) -> None:
        """Raise when it was killed."""
        if self._is_killed:
            raise Killed

    def _run(self) -> None:
        self._go.acquire()
        _here.strand = self
        for alias, connection in self._shared.items():
            connections[alias] = connection
        try:
            if not self._is_killed:
                self._work(self)
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - whoever resumed it meets the error
            self._error = error
        finally:
            for alias in self._shared:
                del connections[alias]
            self.ended = True
            self._back.release()


def current_strand() -> Strand | None:
    """Answer the strand that the calling thread is; ``None`` for every other thread."""
    return getattr(_here, "strand", None)
