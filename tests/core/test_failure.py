"""The record of an exception: bounded and storable, whatever was raised."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Generator, Iterator
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

from ultimate_jobs.core.failure import MAX_ERROR_CHARS, describe, headline, where
from ultimate_jobs.core.jsonform import canonical


class TwoArgumentsError(Exception):
    def __init__(self, one: str, two: object) -> None:
        super().__init__(one)
        self.two = two


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")

    __repr__ = __str__


class ReprRaisesError(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class NumberedError(Exception):
    def __str__(self) -> str:
        return cast("str", 7)


class ExitingError(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class NotesOfAnotherKindError(Exception):
    __notes__ = "no list"  # type: ignore[assignment]


def raised(error: BaseException) -> BaseException:
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


def chained(length: int) -> BaseException:
    error: BaseException | None = None
    for number in range(length):
        link = ValueError(f"link {number}")
        link.__cause__ = error
        error = link
    assert error is not None
    return error


def its_own_cause() -> BaseException:
    error = ValueError("round")
    error.__cause__ = error
    return error


def two_that_cause_each_other() -> BaseException:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    return one


def in_a_generator() -> BaseException:
    def numbers() -> Iterator[int]:
        try:
            yield 1
        except ValueError:
            raise KeyError("handling") from None
        finally:
            dict[str, int]()["closing"]

    started = numbers()
    next(started)
    assert isinstance(started, Generator)
    with pytest.raises(KeyError) as caught:
        started.throw(ValueError("thrown in"))
    return caught.value


def defined_inside() -> BaseException:
    class InsideError(Exception):
        pass

    return InsideError("inside")


def no_exception_at_all() -> BaseException:
    text: Any = "text"
    with pytest.raises(TypeError) as caught:
        raise text
    return caught.value


def noted(note: str) -> BaseException:
    error = ValueError("noted")
    error.add_note(note)
    return error


def caused_by(text: str) -> BaseException:
    error = ValueError("outer")
    error.__cause__ = RuntimeError(text)
    return error


EXCEPTIONS: dict[str, tuple[Callable[[], BaseException], list[str]]] = {
    "two required arguments": (
        lambda: TwoArgumentsError("one", object()),
        ["TwoArgumentsError: one"],
    ),
    "text that raises": (UnprintableError, ["UnprintableError", "__str__ raised RuntimeError"]),
    "a repr that raises": (lambda: ReprRaisesError("fine"), ["ReprRaisesError: fine"]),
    "text that is a number": (NumberedError, ["NumberedError", "__str__ raised TypeError"]),
    "text that exits": (ExitingError, ["ExitingError", "__str__ raised SystemExit"]),
    "text of 50 MB": (lambda: ValueError("x" * 50_000_000), ["ValueError: xxx", "(cut)"]),
    "ten thousand causes": (lambda: chained(10_000), ["link 9999", "Caused by", "left out"]),
    "a cause that is itself": (its_own_cause, ["ValueError: round", "returns to an exception"]),
    "causes in a circle": (two_that_cause_each_other, ["one", "two", "returns to an exception"]),
    "a group of five thousand": (
        lambda: ExceptionGroup("many", [ValueError(str(n)) for n in range(5_000)]),
        ["many", "Member 1 of 5000: ValueError: 0", "4995 more members are left out"],
    ),
    "a class defined in the body": (defined_inside, ["InsideError: inside"]),
    "no exception at all": (no_exception_at_all, ["TypeError: exceptions must derive"]),
    "the end of an iterator": (lambda: StopIteration(3), ["StopIteration: 3"]),
    "an assertion without text": (AssertionError, ["AssertionError"]),
    "an error while another is handled": (
        in_a_generator,
        ["KeyError: 'closing'", "While handling: KeyError: 'handling'"],
    ),
    "an exit": (lambda: SystemExit(3), ["SystemExit: 3"]),
    "NUL in the text": (lambda: ValueError("boom\x00tail"), ["boom\\x00tail"]),
    "NUL in a note": (lambda: noted("boom\x00tail"), ["ValueError: noted", "boom\\x00tail"]),
    "NUL in a cause": (
        lambda: caused_by("boom\x00tail"),
        ["Caused by: RuntimeError: boom\\x00tail"],
    ),
    "NUL in a member": (
        lambda: ExceptionGroup("g", [ValueError("boom\x00tail")]),
        ["Member 1 of 1: ValueError: boom\\x00tail"],
    ),
    "half a surrogate pair": (lambda: ValueError("boom\ud800tail"), ["boom\\ud800tail"]),
    "notes that are no list": (NotesOfAnotherKindError, ["NotesOfAnotherKindError"]),
    "many long notes": (
        lambda: _with_notes(ValueError("n"), 50, "y" * 100_000),
        ["ValueError: n", "yyy"],
    ),
}


def _with_notes(error: Exception, count: int, note: str) -> Exception:
    for _ in range(count):
        error.add_note(note)
    return error


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_whatever_is_raised_has_a_bounded_storable_record(name: str) -> None:
    make, parts = EXCEPTIONS[name]

    text = describe(raised(make()))

    assert len(text) <= MAX_ERROR_CHARS
    assert canonical(text) == text
    for part in parts:
        assert part in text


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_the_first_line_is_short_and_says_what_was_raised(name: str) -> None:
    error = EXCEPTIONS[name][0]()

    line = headline(error)

    assert 0 < len(line) < 4_100
    assert canonical(line) == line
    assert type(error).__name__ in line


def test_a_record_begins_with_type_and_message_and_goes_on_with_the_frames() -> None:
    def inner() -> None:
        raise KeyError("missing")

    with pytest.raises(KeyError) as caught:
        inner()

    lines = describe(caught.value).splitlines()
    assert lines[0] == "KeyError: 'missing'"
    assert [line.rpartition(" in ")[2] for line in lines if line.startswith('  File "')] == [
        "test_a_record_begins_with_type_and_message_and_goes_on_with_the_frames",
        "inner",
    ]
    assert where(caught.value).startswith(__file__)


def test_a_record_names_a_foreign_type_by_its_module() -> None:
    assert headline(TwoArgumentsError("a", 1)) == f"{__name__}.TwoArgumentsError: a"


def test_of_a_deep_recursion_the_innermost_frames_are_kept() -> None:
    def down(levels: int) -> None:
        if levels == 0:
            raise ValueError("at the bottom")
        down(levels - 1)

    with pytest.raises(ValueError, match="at the bottom") as caught:
        down(sys.getrecursionlimit() // 2)

    text = describe(caught.value)
    assert 'raise ValueError("at the bottom")' in text
    assert text.count('  File "') == 20


def test_a_suppressed_context_is_left_out_and_an_open_one_is_not() -> None:
    hidden, shown = ValueError("second"), ValueError("second")
    hidden.__context__ = shown.__context__ = KeyError("first")
    hidden.__suppress_context__ = True

    assert "first" not in describe(hidden)
    assert "While handling: KeyError: 'first'" in describe(shown)


def test_an_error_that_was_never_raised_has_a_record_and_no_place() -> None:
    assert describe(ValueError("x")) == "ValueError: x"
    assert where(ValueError("x")) == ""


def test_a_record_holds_nothing_of_the_exception() -> None:
    error = TwoArgumentsError("one", object())
    kept = weakref.ref(error)

    describe(raised(error))
    error.__traceback__ = None
    del error
    gc.collect()

    assert kept() is None


@given(st.text(st.characters(), max_size=100), st.lists(st.text(st.characters()), max_size=3))
def test_any_text_anywhere_leaves_a_storable_record(text: str, notes: list[str]) -> None:
    error = ValueError(text)
    for note in notes:
        error.add_note(note)
    error.__cause__ = ExceptionGroup("g", [KeyError(text)])

    found = describe(error)

    assert canonical(found) == found
    assert len(found) <= MAX_ERROR_CHARS
