"""Word of new work, from one thread of the process to another."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack

from ultimate_jobs.core.records import Notice, Topic
from ultimate_jobs.drivers.memory.following import Session
from ultimate_jobs.drivers.memory.store import Statement, Store


class MemoryWake:
    """Notices of what is committed."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def listen(self, *topics: Topic) -> MemoryListening:
        """Listen from now on."""
        return MemoryListening(self._session.store, topics or tuple(Topic))

    def tell(self, words: Sequence[str]) -> None:
        """Send words to everybody who listens for results."""

        def say(statement: Statement) -> None:
            for word in words:
                statement.tell(Topic.RESULTS, word)

        self._session.run(say)

    def probe(self, token: str) -> None:
        """Send a token to everybody who listens."""

        def say(statement: Statement) -> None:
            for topic in Topic:
                statement.tell(topic, token)

        self._session.run(say)


class MemoryListening:
    """A session that listens."""

    def __init__(self, store: Store, topics: Sequence[Topic]) -> None:
        self._topics = topics
        self._come: list[Notice] = []
        self._word = threading.Condition()
        self._interrupted = False
        self._stack = ExitStack()
        self._stack.enter_context(store.listening(self._hear))

    def receive(self, seconds: float) -> list[Notice]:
        """Wait until something comes; answer what has come."""
        with self._word:
            self._word.wait_for(lambda: self._come or self._interrupted, max(seconds, 0.0))
            come, self._come = self._come, []
            return come

    def interrupt(self) -> None:
        """End the wait in progress and every later one."""
        with self._word:
            self._interrupted = True
            self._word.notify_all()

    def renounce(self) -> None:
        """Stop listening."""
        self._stack.close()

    def close(self) -> None:
        """Hang up."""
        self._stack.close()

    def _hear(self, notice: Notice) -> None:
        if notice.topic not in self._topics:
            return
        with self._word:
            self._come.append(notice)
            self._word.notify_all()
