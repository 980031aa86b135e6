"""The customers: threads that send orders over HTTP and remember what they were told."""

from __future__ import annotations

import http.client
import json
import queue
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from random import Random

ANSWER_SECONDS = 30
SKUS = ("mug", "teapot", "kettle", "spoon")
CARDS = {"card": 88, "declined": 5, "busy": 4, "silent": 3}
ADDRESSES = {"1 Main Street": 89, "nowhere": 5, "island": 3, "moor": 3}


@dataclass(frozen=True, slots=True)
class NewOrder:
    """An order to send; `fail` asks the shop to refuse it after everything was written."""

    reference: str
    fail: bool
    sku: str
    card: str
    address: str
    amount: str = "19.90"

    @property
    def is_hopeless(self) -> bool:
        return self.card == "declined" or self.address == "nowhere"


def some_orders(total: int, *, refuse_every: int, dice: Random) -> list[NewOrder]:
    """Make up orders `demo-0001` …; each `refuse_every`th asks to be refused."""
    return [
        NewOrder(
            reference=f"demo-{number:04}",
            fail=number % refuse_every == 0,
            sku=dice.choice(SKUS),
            card=_one_of(CARDS, dice),
            address=_one_of(ADDRESSES, dice),
        )
        for number in range(1, total + 1)
    ]


def _one_of(weights: dict[str, int], dice: Random) -> str:
    return dice.choices(list(weights), list(weights.values()))[0]


class Traffic:
    """Orders, sent by a few clients at once."""

    def __init__(self, port: int, orders: list[NewOrder], *, clients: int) -> None:
        self.accepted: set[str] = set()
        self.refused: set[str] = set()
        self.surprises: list[str] = []
        self._port = port
        self._orders: queue.SimpleQueue[NewOrder] = queue.SimpleQueue()
        for order in orders:
            self._orders.put(order)
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
        for order in self._take():
            try:
                status = post(line, "/orders/", asdict(order))
            except (OSError, http.client.HTTPException) as error:
                line.close()
                self._note(order.reference, f"{type(error).__name__}: {error}")
            else:
                self._note(order.reference, status)

    def _take(self) -> Iterator[NewOrder]:
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


def post(line: http.client.HTTPConnection, path: str, body: dict[str, object]) -> int:
    """Send JSON and answer the status."""
    line.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = line.getresponse()
    answer.read()
    return answer.status
