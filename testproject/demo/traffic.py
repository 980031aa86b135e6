"""The customers: threads that send orders over HTTP and remember what they were told."""

from __future__ import annotations

import http.client
import json
import queue
import threading
from collections.abc import Iterator

ANSWER_SECONDS = 30


class Traffic:
    """Orders `demo-0001` … sent by a few clients at once; each `refuse_every`th asks to be refused."""

    def __init__(self, port: int, total: int, *, refuse_every: int, clients: int) -> None:
        self.accepted: set[str] = set()
        self.refused: set[str] = set()
        self.surprises: list[str] = []
        self._port = port
        self._orders: queue.SimpleQueue[tuple[str, bool]] = queue.SimpleQueue()
        for number in range(1, total + 1):
            self._orders.put((f"demo-{number:04}", number % refuse_every == 0))
        self._lock = threading.Lock()
        self._clients = [threading.Thread(target=self._send, daemon=True) for _ in range(clients)]

    def start(self) -> None:
        for client in self._clients:
            client.start()

    @property
    def sent(self) -> int:
        return len(self.accepted) + len(self.refused) + len(self.surprises)

    @property
    def is_over(self) -> bool:
        return not any(client.is_alive() for client in self._clients)

    def _send(self) -> None:
        line = http.client.HTTPConnection("127.0.0.1", self._port, timeout=ANSWER_SECONDS)
        for reference, fail in self._take():
            try:
                status = _post(line, {"reference": reference, "amount": "19.90", "fail": fail})
            except (OSError, http.client.HTTPException) as error:
                line.close()
                self._note(reference, f"{type(error).__name__}: {error}")
            else:
                self._note(reference, status)

    def _take(self) -> Iterator[tuple[str, bool]]:
        while True:
            try:
                yield self._orders.get_nowait()
            except queue.Empty:
                return

    def _note(self, reference: str, answer: int | str) -> None:
        with self._lock:
            match answer:
                case 201:
                    self.accepted.add(reference)
                case 422:
                    self.refused.add(reference)
                case _:
                    self.surprises.append(f"{reference}: {answer}")


def _post(line: http.client.HTTPConnection, order: dict[str, object]) -> int:
    line.request("POST", "/orders/", json.dumps(order), {"Content-Type": "application/json"})
    answer = line.getresponse()
    answer.read()
    return answer.status
