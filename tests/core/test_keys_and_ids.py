"""Keys that an input decides, and ids that nothing decides."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from uuid import UUID

import pytest

from ultimate_jobs.core import keys
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.errors import DeclarationInvalid, InvariantError

SECRET = "a-secret-value"

Compute = Callable[[str, Callable[[str], str], str], str]


@pytest.mark.parametrize("text", ["k", "k" * 1_000, "é", "a b\n", "\U0001f600", "\\u0000"])
@pytest.mark.parametrize("compute", [keys.idempotency_key, keys.tenant])
def test_a_key_is_what_the_function_answers(compute: Compute, text: str) -> None:
    assert compute("job", lambda i: i, text) == text


@pytest.mark.parametrize(
    "answer", ["", None, 7, b"k", ["k"], f"{SECRET}\x00", f"{SECRET}\ud800"], ids=ascii
)
@pytest.mark.parametrize("compute", [keys.idempotency_key, keys.tenant])
def test_a_key_that_is_no_storable_text_is_refused_without_being_quoted(
    compute: Compute, answer: object
) -> None:
    with pytest.raises(InvariantError) as caught:
        compute("shop.checkout", lambda i: answer, "input")  # type: ignore[arg-type,return-value]

    assert "shop.checkout" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_an_idempotency_key_has_at_most_a_thousand_characters() -> None:
    with pytest.raises(InvariantError) as caught:
        keys.idempotency_key("job", lambda i: SECRET * 100, "input")

    assert "1000" in caught.value.cause
    assert "Hash" in caught.value.fix
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("text", ["k", "k" * 200])
def test_a_concurrency_key_is_what_the_function_answers(text: str) -> None:
    assert keys.concurrency_key("job", lambda i: i, text) == text


@pytest.mark.parametrize("answer", ["", None, 7, "k" * 201], ids=lambda a: repr(a)[:8])
def test_a_concurrency_key_has_1_to_200_characters(answer: object) -> None:
    with pytest.raises(DeclarationInvalid):
        keys.concurrency_key("job", lambda i: answer, "input")  # type: ignore[arg-type,return-value]


# Ids


def test_an_id_is_a_uuid_of_version_7() -> None:
    made = new_id()

    assert made.version == 7
    assert made.variant == "specified in RFC 4122"
    assert str(made) == str(UUID(str(made)))


def test_an_id_tells_when_it_was_made() -> None:
    before = time.time_ns() // 1_000_000
    made = new_id()
    after = time.time_ns() // 1_000_000

    assert before <= made.int >> 80 <= after


def test_ids_sort_in_the_order_in_which_they_were_made() -> None:
    made = [new_id() for _ in range(20_000)]

    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_threads_never_make_one_id_twice() -> None:
    made: list[UUID] = []

    def make() -> None:
        made.extend([new_id() for _ in range(2_000)])

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(made)) == 16_000
