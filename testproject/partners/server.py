"""The partners over HTTP, in JSON.

    POST /charges    {"reference", "amount", "card"}       201, or 402 when the card is declined
    POST /shipments  {"reference", "address"}              201, or 422 when the address is refused
    POST /refunds, /recalls  {"reference"}                 200: undoes the charge or shipment of that key
    GET  /charges, /shipments, /calls                      the books; `?after=n` leaves out the first n

A POST carries an `Idempotency-Key`. One that is busy answers 503, one that was undone 409.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import parse_qs, urlsplit

from testproject.partners.books import ADDRESSES, CARDS, Books, Did, Mood

REFUSALS: Final = {"charge": (402, "CARD_DECLINED"), "shipment": (422, "ADDRESS_REFUSED")}
UNDOES: Final = {"/refunds": "charge", "/recalls": "shipment"}
DOES: Final = {"/charges": "charge", "/shipments": "shipment"}

Answer = tuple[int, Any]


class Partners(ThreadingHTTPServer):
    """Serves the books on a socket that listens already.

    Args:
        listening: where to serve.
        books: the file of the books.
        seconds: how long each call takes.

    """

    daemon_threads = False  # a call that has begun is answered before the books are closed

    def __init__(self, listening: socket.socket, books: Path, seconds: float = 0.0) -> None:
        super().__init__(listening.getsockname()[:2], Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.books = Books(books)
        self.seconds = seconds
        self.closing = threading.Event()

    def server_close(self) -> None:
        self.closing.set()
        super().server_close()
        self.books.close()


@contextmanager
def serving(books: Path) -> Iterator[tuple[str, Books]]:
    """Serve on a thread inside the block; answer the address and the books."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=128)
    with Partners(listening, books) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", server.books
        finally:
            server.shutdown()
            thread.join()


class Handler(BaseHTTPRequestHandler):
    """One call."""

    timeout = 10

    @property
    def _partners(self) -> Partners:
        return cast("Partners", self.server)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        after = int(parse_qs(url.query).get("after", ["0"])[0])
        if url.path in DOES:
            self._answer((200, self._partners.books.deeds(DOES[url.path], after)))
        elif url.path == "/calls":
            self._answer((200, self._partners.books.calls()[after:]))
        else:
            self._answer((404, {"error": "There is nothing here."}))

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        raw = self.rfile.read(length)
        if len(raw) < length:  # whoever called died in the middle of it: nothing was asked
            self.close_connection = True
            return
        body = json.loads(raw or b"{}")
        key = self.headers.get("Idempotency-Key", "")
        self._partners.closing.wait(self._partners.seconds)
        answer: Answer | None = 404, {"error": "There is nothing here."}
        if not key:
            answer = 400, {"error": "An Idempotency-Key is needed."}
        elif self.path in UNDOES:
            answer = 200, {"did": self._partners.books.undo(UNDOES[self.path], key, _text(body))}
        elif self.path in DOES:
            answer = self._do(DOES[self.path], key, body)
        if answer is not None:
            self._answer(answer)

    def _do(self, what: str, key: str, body: dict[str, Any]) -> Answer | None:
        mood = _mood(what, body)
        did = self._partners.books.do(what, key, _text(body), str(body.get("amount", "")), mood)
        match did:
            case Did.REFUSED:
                status, code = REFUSALS[what]
                return status, {"code": code, "error": f"The {what} is refused."}
            case Did.BUSY:
                return 503, {"code": "BUSY", "error": "Come back in a moment."}
            case Did.BARRED:
                return 409, {"code": "UNDONE", "error": f"The {what} was undone."}
            case Did.DONE if mood is Mood.SILENT:
                return None
            case _:
                return 201, {"id": f"{what}-{sha256(key.encode()).hexdigest()[:12]}"}

    def _answer(self, answer: Answer) -> None:
        status, body = answer
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name it is called with
        """Say nothing: the books say it all."""


def _mood(what: str, body: dict[str, Any]) -> Mood:
    if what == "charge":
        return CARDS.get(str(body.get("card")), Mood.WILLING)
    return ADDRESSES.get(str(body.get("address")), Mood.WILLING)


def _text(body: dict[str, Any]) -> str:
    return str(body.get("reference", ""))
