"""The carrier's drivers: a thread that reports to the shop that parcels have arrived.

It knows of a parcel from the carrier's own books, and takes a moment to bring it. Short ways end
before the shop has even stored that it handed the parcel over, long ones when it has waited a while.
"""

from __future__ import annotations

import heapq
import http.client
import json
import threading
import time
from random import Random
from typing import Any

from testproject.demo.traffic import ANSWER_SECONDS, post

LONGEST_WAY_SECONDS = 3.0
PAUSE_SECONDS = 0.05


class Carrier:
    """Brings what was shipped, until it is told to stop."""

    def __init__(self, *, shop: int, partners: int, seed: float) -> None:
        self.surprises: list[str] = []
        self._shop, self._partners = shop, partners
        self._dice = Random(seed)  # noqa: S311 - dice that can be thrown again
        self._under_way: list[tuple[float, str]] = []
        self._seen = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(ANSWER_SECONDS)

    def _run(self) -> None:
        shop = http.client.HTTPConnection("127.0.0.1", self._shop, timeout=ANSWER_SECONDS)
        while not self._stopping.wait(PAUSE_SECONDS):
            try:
                self._collect()
                self._bring(shop)
            except (OSError, http.client.HTTPException) as error:
                shop.close()
                self.surprises.append(f"carrier: {type(error).__name__}: {error}")
        shop.close()

    def _collect(self) -> None:
        for parcel in books(self._partners, f"/shipments?after={self._seen}"):
            self._seen += 1
            way = self._dice.uniform(0, LONGEST_WAY_SECONDS)
            heapq.heappush(self._under_way, (time.monotonic() + way, parcel["reference"]))

    def _bring(self, shop: http.client.HTTPConnection) -> None:
        while self._under_way and self._under_way[0][0] <= time.monotonic():
            reference = self._under_way[0][1]
            told: dict[str, object] = {"reference": reference, "signed_by": "A. Neighbour"}
            status = post(shop, "/carrier/", told)
            if status != 200:
                self.surprises.append(f"the arrival of {reference}: {status}")
            heapq.heappop(self._under_way)


def books(port: int, path: str) -> list[dict[str, Any]]:
    """Read the books of the partners."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    try:
        line.request("GET", path)
        answer: list[dict[str, Any]] = json.loads(line.getresponse().read())
        return answer
    finally:
        line.close()
