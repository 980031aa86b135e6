"""Whatever a body raises or returns, the attempt is recorded and the worker goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.builders import Declarations, Ping, states
from tests.worker.running import Events, work, work_out
from ultimate_jobs import Retry, Run
from ultimate_jobs.core.failure import MAX_ERROR_CHARS
from ultimate_jobs.models import Job as JobRow

pytestmark = pytest.mark.django_db(transaction=True)


class TwoArgumentsError(Exception):
    def __init__(self, one: object, other: object) -> None:
        super().__init__()
        self.held = (one, other)


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class UnrepresentableError(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("no representation")


class NumberedError(Exception):
    def __str__(self) -> str:
        return 7  # type: ignore[return-value]  # noqa: PLE0307


class HostileError(Exception):
    @property
    def code(self) -> str:
        raise RuntimeError("no code")

    @property
    def meta(self) -> object:
        raise RuntimeError("no meta")


class EvasiveError(Exception):
    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        raise RuntimeError("no notes")


class FinalError(BaseException):
    """An exception that ``except Exception`` does not catch."""


def _two_arguments() -> None:
    raise TwoArgumentsError(object(), lambda: None)


def _unprintable() -> None:
    raise UnprintableError


def _unrepresentable() -> None:
    raise UnrepresentableError("words")


def _numbered() -> None:
    raise NumberedError


def _hostile() -> None:
    raise HostileError("words")


def _evasive() -> None:
    raise EvasiveError("words")


def _enormous() -> None:
    raise ValueError("x" * 50_000_000)


def _chained() -> None:
    error: Exception = ValueError("the first")
    for n in range(10_000):
        following = ValueError(n)
        following.__cause__ = error
        error = following
    raise error


def _circular() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    raise one


def _crowd() -> None:
    raise ExceptionGroup("many", [ValueError(n) for n in range(5_000)])


def _local_class() -> None:
    class LocalError(Exception):
        pass

    raise LocalError("from inside")


def _no_exception() -> None:
    raise 3  # type: ignore[misc]  # noqa: B016


def _stop_iteration() -> None:
    raise StopIteration("early")


def _wordless() -> None:
    raise AssertionError


def _while_handling() -> None:
    def numbers() -> Iterator[int]:
        try:
            int("the first")
        except ValueError:
            yield 1
            raise LookupError("the second")  # noqa: B904 - while handling is what this is about

    list(numbers())


def _exit() -> None:
    raise SystemExit(3)


def _interrupt() -> None:
    raise KeyboardInterrupt


def _generator_exit() -> None:
    raise GeneratorExit


def _base() -> None:
    raise FinalError("not an Exception")


def _recursion() -> None:
    _recursion()


RAISED: dict[Callable[[], None], str] = {
    _two_arguments: "TwoArgumentsError",
    _unprintable: "UnprintableError: (its text cannot be printed",
    _unrepresentable: "UnrepresentableError: words",
    _numbered: "NumberedError: (its text cannot be printed",
    _hostile: "HostileError: words",
    _evasive: "EvasiveError",
    _enormous: "ValueError: xxxx",
    _chained: "ValueError: 9999",
    _circular: "ValueError: one",
    _crowd: "ExceptionGroup: many (5000 sub-exceptions)",
    _local_class: "LocalError: from inside",
    _no_exception: "TypeError: exceptions must derive from BaseException",
    _stop_iteration: "StopIteration: early",
    _wordless: "AssertionError",
    _while_handling: "LookupError: the second",
    _exit: "SystemExit: 3",
    _interrupt: "KeyboardInterrupt",
    _generator_exit: "GeneratorExit",
    _base: "FinalError: not an Exception",
    _recursion: "RecursionError: maximum recursion depth exceeded",
}


@pytest.mark.parametrize("misbehave", RAISED, ids=lambda function: function.__name__[1:])
def test_whatever_a_body_raises_is_recorded_and_the_worker_goes_on(
    declare: Declarations, misbehave: Callable[[], None]
) -> None:
    bad = declare(lambda run: misbehave(), retry=Retry(attempts=2))
    good = declare(lambda run: "well")
    bad.enqueue(Ping("bad"), priority=1)
    good.enqueue(Ping("good"))

    work_out(bad, good, concurrency=1)

    row = JobRow.objects.get(name=bad.name)
    assert (row.state, row.attempt) == ("dead", 2)
    assert row.last_error is not None
    assert RAISED[misbehave] in row.last_error.partition("\n")[0]
    assert len(row.last_error) <= MAX_ERROR_CHARS
    assert JobRow.objects.get(name=good.name).result == "well"


def _nul_in_the_text() -> None:
    raise ValueError("boom \x00 tail")


def _nul_in_the_cause() -> None:
    raise RuntimeError("outside") from ValueError("boom \x00 tail")


def _nul_in_a_note() -> None:
    error = RuntimeError("outside")
    error.add_note("boom \x00 tail")
    raise error


def _nul_in_a_group() -> None:
    raise ExceptionGroup("outside", [ValueError("boom \x00 tail")])


def _half_a_character() -> None:
    raise ValueError("boom \ud800 tail")


@pytest.mark.parametrize(
    "misbehave",
    [_nul_in_the_text, _nul_in_the_cause, _nul_in_a_note, _nul_in_a_group, _half_a_character],
    ids=lambda function: function.__name__[1:],
)
def test_text_that_cannot_be_stored_does_not_keep_a_failure_from_being_written(
    declare: Declarations, misbehave: Callable[[], None]
) -> None:
    ping = declare(lambda run: misbehave(), retry=Retry(attempts=2))
    ping.enqueue(Ping("a"))

    work(ping)

    row = JobRow.objects.get()
    assert (row.state, row.attempt) == ("ready", 1)
    assert row.last_error is not None
    assert "boom " in row.last_error
    assert " tail" in row.last_error

    work_out(ping)

    assert states() == {"dead": 1}


def _circle() -> object:
    rows: list[object] = []
    rows.append(rows)
    return rows


UNSTORABLE: dict[str, object] = {
    "an object": object(),
    "a set": {1, 2},
    "bytes": b"bytes",
    "no number": float("nan"),
    "an infinity inside": {"deep": [float("inf")]},
    "a key that is no text": {1: "one"},
    "a NUL in text": "a \x00 in text",
    "a NUL in a key": {"a \x00": 1},
    "half a character": "half \ud800 a character",
    "a circle": _circle(),
    "a number of thousands of digits": 1 << 20_000,
}


@pytest.mark.parametrize("what", UNSTORABLE)
def test_a_result_without_a_stored_form_ends_the_job_and_is_named(
    declare: Declarations, what: str
) -> None:
    ping = declare(lambda run: UNSTORABLE[what], retry=Retry(attempts=5))
    ping.enqueue(Ping("a"))

    work(ping)

    row = JobRow.objects.get()
    assert (row.state, row.attempt, row.result) == ("dead", 1, None)
    assert row.last_error is not None
    assert row.last_error.partition("\n")[0].endswith(
        "(not retried: X_JOB_RESULT_UNSERIALIZABLE is terminal)"
    )


def test_a_huge_result_is_stored_whole(declare: Declarations) -> None:
    ping = declare(lambda run: "é" * 1_000_000)
    ping.enqueue(Ping("a"))

    work(ping)

    assert JobRow.objects.get().result == "é" * 1_000_000


def test_the_log_names_a_failure_and_quotes_nothing_of_it(
    declare: Declarations, events: Events
) -> None:
    def body(run: Run[Ping]) -> None:
        raise ValueError(f"cannot charge {run.input.load}")

    ping = declare(body, retry=Retry(attempts=1))
    queued = ping.enqueue(Ping("a", load="4111-1111"))

    work(ping)

    (said,) = events.named("jobs.attempt.failed")
    assert (said["id"], said["name"], said["attempt"]) == (queued.id, ping.name, 1)
    assert said["error"] == "ValueError"
    assert said["at"].rpartition(":")[0] == __file__
    assert "4111-1111" not in events.lines()
    assert "4111-1111" in str(JobRow.objects.get().last_error)


def test_an_input_that_no_longer_parses_is_dead_and_kept(declare: Declarations) -> None:
    starts: list[object] = []
    ping = declare(lambda run: starts.append(run.input), retry=Retry(attempts=5))
    ping.enqueue_many([Ping("a"), Ping("b")])
    stored = {"key": ["no longer", "text"], "extra": "kept"}
    JobRow.objects.filter(idempotency_key="a").update(input=stored)

    work(ping)

    row = JobRow.objects.get(idempotency_key="a")
    assert starts == [Ping("b")]
    assert (row.state, row.attempt) == ("dead", 1)
    assert row.input == stored
    assert row.last_error is not None
    assert "X_JOB_INPUT_INVALID" in row.last_error
