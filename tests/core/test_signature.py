"""Errors of one kind have one signature, whatever values they name."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, strategies

from ultimate_jobs.core.signature import MAX_SIGNATURE_CHARS, constant_part, signature

SAME = [
    ("ValueError: order 17 is gone", "ValueError: order 18,003 is gone"),
    ("KeyError: 'ada'", "KeyError: 'o\\'brien'"),
    ('KeyError: "ada"', 'KeyError: "o\'brien"'),
    (
        "shop.Gone: 3f2c1d9e-0000-7000-8000-00000000abcd left",
        "shop.Gone: 00000000-1111-7000-8000-00000000ffff left",
    ),
    ("OSError: https://a.example/x?id=1 is down", "OSError: https://b.example/y is down"),
    ("ValueError: ada@example.com bounced", "ValueError: grace@example.org bounced"),
    ("RuntimeError: at 0x7f1ae1146980", "RuntimeError: at 0x7f00"),
    ("ValueError: took 1.5 s at 10:33:02", "ValueError: took 12 s at 09:00:00"),
    ("ValueError: boom\n  File x, line 1", "ValueError: boom\n  File y, line 99"),
    ("\n\nValueError: boom", "ValueError: boom"),
]

OTHER = [
    ("ValueError: boom", "KeyError: boom"),
    ("ValueError: order 17 is gone", "ValueError: order 17 is late"),
    ("shop.Gone: x", "bank.Gone: x"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_differs_from_case_to_case_is_left_out(one: str, other: str) -> None:
    assert signature(one) == signature(other)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_errors_of_another_kind_have_another_signature(one: str, other: str) -> None:
    assert signature(one) != signature(other)


def test_a_signature_reads_like_the_error() -> None:
    assert signature("ValueError: order 17 of 'ada' is gone") == (
        "ValueError: order <n> of <text> is gone"
    )


@pytest.mark.parametrize("error", [None, "", "\n \n"], ids=repr)
def test_no_error_has_a_signature_too(error: str | None) -> None:
    assert signature(error) == "(no error)"


@given(strategies.text())
def test_any_text_has_a_short_signature(text: str) -> None:
    assert 0 < len(signature(text)) <= MAX_SIGNATURE_CHARS


@pytest.mark.parametrize("part", ["'", '"a', "0", "a@", "0x", "://", "a1-"])
def test_the_longest_text_is_read_in_no_time(part: str) -> None:
    began = time.monotonic()

    signature(part * (200_000 // len(part)))

    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("error", "part"),
    [
        ("ValueError: order 17 is gone for good", "ValueError: order"),
        ("KeyError: 'ada'", "KeyError:"),
        ("no 7 is gone for good", "is gone for good"),
        ("7", None),
        ("", None),
    ],
)
def test_the_constant_part_is_in_every_error_of_the_kind(error: str, part: str | None) -> None:
    assert constant_part(signature(error)) == part
    assert part is None or part in error
