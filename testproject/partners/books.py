"""What the partners did, decided and on disk before anybody is told."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final


class Mood(StrEnum):
    """How a partner takes a call."""

    WILLING = "willing"
    REFUSING = "refusing"
    BUSY = "busy at first"
    SILENT = "silent at first"


CARDS: Final[Mapping[str, Mood]] = MappingProxyType(
    {"declined": Mood.REFUSING, "busy": Mood.BUSY, "silent": Mood.SILENT}
)
ADDRESSES: Final[Mapping[str, Mood]] = MappingProxyType(
    {"nowhere": Mood.REFUSING, "island": Mood.BUSY, "moor": Mood.SILENT}
)


class Did(StrEnum):
    """What came of a call; `DONE` and `UNDONE` are the only ones with an effect."""

    DONE = "done"
    REPEATED = "repeated"
    REFUSED = "refused"
    BUSY = "busy"
    BARRED = "barred"
    UNDONE = "undone"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Call:
    """One line of the books."""

    what: str
    key: str
    reference: str
    amount: str
    did: Did


class Books:
    """Everything that was ever asked, in a file of lines that only grows."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._calls: list[Call] = []
        self._done: dict[tuple[str, str], Call] = {}
        self._undone: set[tuple[str, str]] = set()
        self._asked: set[tuple[str, str]] = set()
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        for line in path.read_text(encoding="utf-8").splitlines():
            read = json.loads(line)
            self._enter(Call(**read | {"did": Did(read["did"])}))

    def close(self) -> None:
        os.close(self._file)

    def do(self, what: str, key: str, reference: str, amount: str, mood: Mood) -> Did:
        """Do something once under a key."""
        with self._lock:
            return self._write(what, key, reference, amount, self._decide(what, key, mood))

    def undo(self, what: str, key: str, reference: str) -> Did:
        """Undo what was done under a key; it cannot be done afterwards, if it was not before."""
        with self._lock:
            done = self._done.get((what, key))
            if (what, key) in self._undone:
                did = Did.REPEATED
            else:
                did = Did.UNDONE if done else Did.NOTHING
            return self._write(f"undo {what}", key, reference, done.amount if done else "", did)

    def deeds(self, what: str, after: int = 0) -> list[dict[str, object]]:
        """List what took effect, in order, and whether it was undone since."""
        with self._lock:
            done = [call for call in self._done.values() if call.what == what]
            return [
                {
                    "reference": call.reference,
                    "key": call.key,
                    "amount": call.amount,
                    "undone": (what, call.key) in self._undone,
                }
                for call in done[after:]
            ]

    def calls(self) -> list[dict[str, object]]:
        """List every call there was."""
        with self._lock:
            return [asdict(call) for call in self._calls]

    def _decide(self, what: str, key: str, mood: Mood) -> Did:
        if (what, key) in self._undone:
            return Did.BARRED
        if (what, key) in self._done:
            return Did.REPEATED
        if mood is Mood.REFUSING:
            return Did.REFUSED
        if mood is Mood.BUSY and (what, key) not in self._asked:
            return Did.BUSY
        return Did.DONE

    def _write(self, what: str, key: str, reference: str, amount: str, did: Did) -> Did:
        call = Call(what, key, reference, amount, did)
        os.write(self._file, (json.dumps(asdict(call)) + "\n").encode())
        os.fsync(self._file)
        self._enter(call)
        return did

    def _enter(self, call: Call) -> None:
        self._calls.append(call)
        undoes = call.what.removeprefix("undo ")
        if undoes != call.what:
            self._undone.add((undoes, call.key))
            return
        self._asked.add((call.what, call.key))
        if call.did is Did.DONE:
            self._done[call.what, call.key] = call
