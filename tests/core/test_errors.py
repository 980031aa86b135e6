"""The tree of errors: drawn as it is, one code each, and a way out of every one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest

from ultimate_jobs import errors
from ultimate_jobs.errors import JobsError, RateLimited


def classes(root: type[JobsError] = JobsError) -> Iterator[type[JobsError]]:
    yield root
    for child in root.__subclasses__():
        yield from classes(child)


ALL = list(classes())
LEAVES = [error for error in ALL if not error.__subclasses__()]
DRAWN = re.compile(r"^(?P<indent>[│ ]*)[├└]── (?P<name>\w+) +(?P<text>\S.*)$", re.MULTILINE)

every_error = pytest.mark.parametrize("error", LEAVES, ids=lambda error: error.__name__)


def test_the_tree_is_drawn_as_it_is() -> None:
    drawn: dict[str, tuple[str, str]] = {}
    above = ["JobsError"]
    for line in DRAWN.finditer(errors.__doc__ or ""):
        depth = len(line["indent"]) // 4 + 1
        drawn[line["name"]] = (above[depth - 1], line["text"])
        above[depth:] = [line["name"]]

    real = {error.__name__: (error.__mro__[1].__name__, error) for error in ALL[1:]}
    assert {name: parent for name, (parent, _) in drawn.items()} == {
        name: parent for name, (parent, _) in real.items()
    }
    assert {name: text for name, (_, text) in drawn.items() if name in _names(LEAVES)} == {
        error.__name__: error.code for error in LEAVES
    }


def _names(found: list[type[JobsError]]) -> set[str]:
    return {error.__name__ for error in found}


def test_every_code_belongs_to_one_error_but_the_one_that_is_met_in_two_places() -> None:
    shared = {code for code, n in Counter(e.code for e in LEAVES).items() if n > 1}

    assert shared == {"X_JOB_DUPLICATE"}


@every_error
def test_a_code_is_written_in_one_way_and_explained_at_one_place(error: type[JobsError]) -> None:
    assert re.fullmatch(r"X_[A-Z]+(_[A-Z]+)*", error.code)
    assert made(error).docs == f"docs/errors.md#{error.code.lower()}"


@every_error
def test_an_error_brings_its_way_out(error: type[JobsError]) -> None:
    assert "advice" in vars(error), "its own, not an inherited one"
    assert re.fullmatch(r"[A-Z].{10,}[^.]\.?", error.advice)
    assert made(error).fix == error.advice


@every_error
def test_an_error_says_what_it_means_for_the_job_that_ends_with_it(
    error: type[JobsError],
) -> None:
    assert error.retry in {None, "terminal", "retryable", "retry-after"}


@every_error
def test_an_error_is_explained(error: type[JobsError]) -> None:
    assert (error.__doc__ or "").strip()


def made(error: type[JobsError]) -> JobsError:
    return RateLimited(1) if error is RateLimited else error("It happened.")


def test_an_error_reads_as_code_cause_and_fix() -> None:
    error = errors.InvariantError("It happened.", fix="Do this.", meta={"id": 7})

    assert str(error) == "X_INVARIANT: It happened. Fix: Do this."
    assert (error.cause, error.fix, error.meta) == ("It happened.", "Do this.", {"id": 7})
    assert error.args == ("It happened.",)


def test_details_are_a_copy() -> None:
    given: dict[str, object] = {"id": 7}
    error = errors.InvariantError("x", meta=given)
    given["id"] = 8

    assert error.meta == {"id": 7}


def test_every_refusal_can_be_caught_as_one() -> None:
    for error in (errors.InputInvalid, errors.TenantMismatch, errors.OutboxWrongDatabase):
        assert issubclass(error, errors.RefusedError)
        assert issubclass(error, JobsError)
        assert issubclass(error, Exception)
