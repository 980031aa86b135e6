"""The partners: what is asked under one key happens once, and everything is in their books."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings

from testproject.partners.books import Books, Did, Mood
from testproject.partners.server import serving
from tests.builders import PATIENCE


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "books.jsonl"


def charge(books: Books, mood: Mood = Mood.WILLING, key: str = "k") -> Did:
    return books.do("charge", key, "a-1", "1.00", mood)


def ask(method: str, path: str, body: object = None, key: str = "k") -> tuple[int, Any]:
    line = http.client.HTTPConnection(urlsplit(settings.SHOP_PARTNERS_URL).netloc, timeout=PATIENCE)
    try:
        line.request(method, path, json.dumps(body), {"Idempotency-Key": key} if key else {})
        answer = line.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        line.close()


class TestBooks:
    def test_a_key_is_good_for_one_effect(self, file: Path) -> None:
        books = Books(file)

        assert [charge(books) for _ in range(3)] == [Did.DONE, Did.REPEATED, Did.REPEATED]
        assert charge(books, key="other") is Did.DONE
        assert len(books.deeds("charge")) == 2
        assert len(books.deeds("charge", after=1)) == 1
        books.close()

    def test_what_is_undone_is_undone_once_and_for_all(self, file: Path) -> None:
        books = Books(file)
        charge(books)

        assert books.undo("charge", "k", "a-1") is Did.UNDONE
        assert books.undo("charge", "k", "a-1") is Did.REPEATED
        assert charge(books) is Did.BARRED
        assert [one["undone"] for one in books.deeds("charge")] == [True]
        books.close()

    def test_what_was_undone_before_it_was_done_is_never_done(self, file: Path) -> None:
        books = Books(file)

        assert books.undo("charge", "k", "a-1") is Did.NOTHING
        assert charge(books) is Did.BARRED
        assert books.deeds("charge") == []
        books.close()

    @pytest.mark.parametrize(
        ("mood", "answers"),
        [
            (Mood.REFUSING, [Did.REFUSED, Did.REFUSED]),
            (Mood.BUSY, [Did.BUSY, Did.DONE]),
            (Mood.SILENT, [Did.DONE, Did.REPEATED]),
        ],
    )
    def test_moods(self, file: Path, mood: Mood, answers: list[Did]) -> None:
        books = Books(file)

        assert [charge(books, mood) for _ in range(2)] == answers
        books.close()

    def test_they_are_on_disk_and_read_again(self, file: Path) -> None:
        books = Books(file)
        charge(books)
        charge(books, Mood.BUSY, key="busy")
        books.undo("charge", "undone", "a-2")
        calls = books.calls()
        books.close()

        again = Books(file)
        assert (
            again.calls() == calls == [json.loads(line) for line in file.read_text().splitlines()]
        )
        assert charge(again) is Did.REPEATED
        assert charge(again, Mood.BUSY, key="busy") is Did.DONE
        assert charge(again, key="undone") is Did.BARRED
        again.close()


class TestServer:
    def test_a_charge_and_its_refund(self, partners: Books) -> None:
        status, first = ask("POST", "/charges", {"reference": "a-1", "amount": "1", "card": "c"})
        _, second = ask("POST", "/charges", {"reference": "a-1", "amount": "1", "card": "c"})

        assert (status, first) == (201, second)
        assert ask("POST", "/refunds", {"reference": "a-1"}) == (200, {"did": "undone"})
        assert ask("POST", "/charges", {"reference": "a-1"})[0] == 409
        assert ask("GET", "/charges")[1] == [
            {"reference": "a-1", "key": "k", "amount": "1", "undone": True}
        ]
        assert ask("GET", "/charges?after=1")[1] == []

    @pytest.mark.parametrize(
        ("path", "body", "status"),
        [
            ("/charges", {"card": "declined"}, 402),
            ("/charges", {"card": "busy"}, 503),
            ("/shipments", {"address": "nowhere"}, 422),
            ("/shipments", {"address": "island"}, 503),
            ("/favours", {}, 404),
        ],
    )
    def test_what_is_not_done(
        self, partners: Books, path: str, body: dict[str, str], status: int
    ) -> None:
        assert ask("POST", path, body)[0] == status
        assert partners.deeds("charge") == partners.deeds("shipment") == []

    def test_one_that_stays_silent_has_done_it(self, partners: Books) -> None:
        with pytest.raises(http.client.RemoteDisconnected):
            ask("POST", "/charges", {"reference": "a-1", "card": "silent"})

        assert [one["reference"] for one in partners.deeds("charge")] == ["a-1"]
        assert ask("POST", "/charges", {"reference": "a-1", "card": "silent"})[0] == 201

    def test_a_call_without_a_key_is_refused(self, partners: Books) -> None:
        assert ask("POST", "/charges", {}, key="")[0] == 400
        assert ask("GET", "/favours")[0] == 404
        assert partners.calls() == []

    @pytest.mark.parametrize("arrived", [b"", b'{"reference": "a-'], ids=["nothing", "a part"])
    def test_a_caller_that_dies_in_the_middle_has_asked_for_nothing(
        self, partners: Books, arrived: bytes
    ) -> None:
        head = b"POST /charges HTTP/1.1\r\nIdempotency-Key: k\r\nContent-Length: 50\r\n\r\n"
        where = urlsplit(settings.SHOP_PARTNERS_URL)
        with socket.create_connection((where.hostname, where.port), PATIENCE) as line:
            line.sendall(head + arrived)
            line.shutdown(socket.SHUT_WR)
            assert line.recv(1) == b""

        assert partners.calls() == []

    def test_it_ends_with_its_block(self, file: Path) -> None:
        with serving(file) as (url, _):
            host = urlsplit(url).netloc

        line = http.client.HTTPConnection(host, timeout=PATIENCE)
        with pytest.raises(ConnectionRefusedError):
            line.request("GET", "/calls")
