"""Redaction: what an operator may see of an input or a result."""

from __future__ import annotations

import time

import pytest

from ultimate_jobs.core.jsonform import JSONValue
from ultimate_jobs.operate.redaction import REDACTED, redacted

SECRETS = [
    "password",
    "PASSWORD",
    "db_passwd",
    "pwd",
    "passphrase",
    "secret",
    "clientSecret",
    "token",
    "refresh_token",
    "api_key",
    "apikey",
    "apiKey",
    "X-Api-Key",
    "access-key",
    "Authorization",
    "credentials",
    "cookie",
    "Set-Cookie",
    "sessionid",
    "private_key",
    "card_number",
    "cvv",
    "cvc",
    "iban",
    "ssn",
    "signature",
]

PLAIN = ["name", "order_id", "org", "key", "note", "author", "passenger", "email", "", "état"]

URLS = [
    ("https://ada:hunter2@example.com/x", "https://[redacted]@example.com/x"),
    ("postgresql://ada@db/shop", "postgresql://[redacted]@db/shop"),
    ("https://ada:hunter@2@example.com", "https://[redacted]@example.com"),
    ("redis://:hunter2@cache:6379/0", "redis://[redacted]@cache:6379/0"),
    ("HTTPS://ada:hunter2@example.com", "HTTPS://[redacted]@example.com"),
    ("git+ssh://git:hunter2@host/repo", "git+ssh://[redacted]@host/repo"),
    (
        "see https://a:hunter2@x and ftp://b:hunter2@y",
        "see https://[redacted]@x and ftp://[redacted]@y",
    ),
    ("1https://ada:hunter2@example.com", "1https://[redacted]@example.com"),
    ("postgresql://ada:hunter?2#@db/shop", "postgresql://[redacted]@db/shop"),
    ("https://ada:hunter2@[::1]/", "https://[redacted]@[::1]/"),
]

UNTOUCHED: list[JSONValue] = [
    "",
    "ada@example.com",
    "https://example.com/users/ada@example.com",
    "https://example.com mail ada@example.com",
    "mailto:ada@example.com",
    "C:\\\\files\\ada@home",
    None,
    True,
    0,
    1.5,
    [],
    {},
    [[{"name": "ada"}]],
]


@pytest.mark.parametrize("key", SECRETS)
def test_a_value_whose_key_reads_like_a_secret_is_masked(key: str) -> None:
    assert redacted({key: "hunter2", "name": "ada"}) == {key: REDACTED, "name": "ada"}


@pytest.mark.parametrize("value", [None, 7, "", ["hunter2"], {"inner": "hunter2"}], ids=repr)
def test_whatever_a_secret_is_nothing_of_it_is_left(value: JSONValue) -> None:
    assert redacted({"token": value}) == {"token": REDACTED}


@pytest.mark.parametrize("key", PLAIN)
def test_a_key_that_reads_like_none_keeps_its_value(key: str) -> None:
    assert redacted({key: "ada"}) == {key: "ada"}


def test_secrets_are_found_however_deep_they_are() -> None:
    deep: JSONValue = {"users": [{"name": "ada", "login": {"password": "hunter2"}}, "hunter2"]}

    assert redacted(deep) == {
        "users": [{"name": "ada", "login": {"password": REDACTED}}, "hunter2"]
    }


@pytest.mark.parametrize(("text", "left"), URLS)
def test_a_url_loses_its_credentials_and_nothing_else(text: str, left: str) -> None:
    assert redacted(text) == left
    assert redacted({"url": [text]}) == {"url": [left]}


@pytest.mark.parametrize("value", UNTOUCHED, ids=repr)
def test_what_holds_no_secret_is_left_as_it_is(value: JSONValue) -> None:
    assert redacted(value) == value


def test_the_value_itself_is_not_changed() -> None:
    value: JSONValue = {"password": "hunter2", "list": [{"token": "t"}]}

    redacted(value)

    assert value == {"password": "hunter2", "list": [{"token": "t"}]}


@pytest.mark.parametrize("part", ["a.", "a:", "a@", "://", "://a", "://@"])
def test_the_longest_text_is_read_in_no_time(part: str) -> None:
    text = part * (200_000 // len(part))
    began = time.thread_time()

    redacted(text)

    assert time.thread_time() - began < 10, "seconds of this thread's own work"
