"""What ``@job`` refuses when the module is imported, and what the handle says afterwards."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pydantic
import pytest

from tests.builders import Ping, declared
from ultimate_jobs import NO_TENANT, AsyncRun, Concurrency, Job, Retry, Run, Settled, job
from ultimate_jobs.definitions.registry import registry
from ultimate_jobs.errors import DeclarationError, InputInvalid, InvariantError

WHOLE: dict[str, Any] = {
    "input": Ping,
    "tenant": NO_TENANT,
    "idempotency_key": lambda i: i.key,
    "retry": Retry(),
    "name": "tests.refused",
}


def body(run: Run[Ping]) -> None:
    """Say what it does."""


async def asynchronous(run: AsyncRun[Ping]) -> None:
    """Say what it does, later."""


def generator(run: Run[Ping]) -> Any:
    yield run


async def asynchronous_generator(run: Run[Ping]) -> Any:
    yield run


def of_nothing() -> None:
    """Take no run."""


def of_two(run: Run[Ping], other: int) -> None:
    """Take more than the run."""


def of_keyword_only(*, run: Run[Ping]) -> None:
    """Take the run by name."""


def with_default(run: Run[Ping], other: int = 1) -> None:
    """Take the run, and something that has a default."""


def of_any(*runs: Run[Ping]) -> None:
    """Take whatever comes."""


class Callee:
    def __call__(self, run: Run[Ping]) -> None:
        """Be no function."""


@dataclasses.dataclass
class Unresolved:
    field: NoSuchName  # type: ignore[name-defined]  # noqa: F821


def refused(changes: dict[str, Any], of: Callable[..., Any] = body) -> DeclarationError:
    """Declare with some fields changed, or left out where the change is ``...``."""
    fields = {name: value for name, value in {**WHOLE, **changes}.items() if value is not ...}
    before = registry.names()
    with pytest.raises(DeclarationError) as caught:
        job(**fields)(of)
    assert registry.names() == before
    return caught.value


# Missing fields


@pytest.mark.parametrize(
    ("field", "code"),
    [
        ("idempotency_key", "X_IDEMPOTENCY_REQUIRED"),
        ("tenant", "X_JOB_TENANT_REQUIRED"),
        ("retry", "X_JOB_DECLARATION_INVALID"),
        ("input", "X_JOB_DECLARATION_INVALID"),
    ],
)
@pytest.mark.parametrize("nothing", [..., None], ids=["left out", "None"])
def test_a_field_that_every_job_has_cannot_be_left_out(
    field: str, code: str, nothing: object
) -> None:
    error = refused({field: nothing})

    assert error.code == code
    assert field in error.cause


def test_every_missing_field_is_named_at_once() -> None:
    error = refused(dict.fromkeys(("input", "tenant", "idempotency_key", "retry"), ...))

    assert error.code == "X_JOB_DECLARATION_INVALID"
    for field in ("input", "tenant", "idempotency_key", "retry"):
        assert field in error.cause


# Wrong fields


WRONG: dict[str, dict[str, Any]] = {
    "a tenant that is text": {"tenant": "acme"},
    "a key that is text": {"idempotency_key": "k"},
    "a policy that is a number": {"retry": 3},
    "a policy that is a class": {"retry": Retry},
    "an input that is a name": {"input": "Ping"},
    "an input that is a value": {"input": 7},
    "an input with a field of no known type": {"input": Unresolved},
    "an empty name": {"name": ""},
    "a long name": {"name": "n" * 201},
    "a name with NUL": {"name": "a\x00b"},
    "a name of another type": {"name": 7},
    "an empty queue": {"queue": ""},
    "a long queue": {"queue": "q" * 201},
    "a queue with half a pair": {"queue": "\ud800"},
    "no queue": {"queue": None},
    **{f"a timeout of {value!r}": {"timeout": value} for value in (0, -1, float("nan"), True, "x")},
    **{
        f"a hook timeout of {value!r}": {"on_settled_timeout": value}
        for value in (0, -1, float("inf"), None, "")
    },
    "a hook that is text": {"on_settled": "hook"},
    **{f"a cap of {value!r}": {"concurrency": value} for value in (0, -1, 1.5, True, "3")},
    "a keyed cap of nothing": {"concurrency": Concurrency(key=lambda i: "k", limit=0)},
    "a cap keyed by text": {"concurrency": Concurrency(key="k", limit=1)},  # type: ignore[arg-type]
    "a cap that does something else when busy": {
        "concurrency": Concurrency(key=lambda i: "k", limit=1, when_busy="drop")  # type: ignore[arg-type]
    },
}


@pytest.mark.parametrize("case", WRONG)
def test_a_field_that_cannot_be_meant_is_refused(case: str) -> None:
    error = refused(WRONG[case])

    assert error.code == "X_JOB_DECLARATION_INVALID"
    assert error.retry == "terminal"


@pytest.mark.parametrize("attempts", [0, -1, 1.5, True, "3"])
def test_the_number_of_attempts_is_a_whole_number_from_one(attempts: Any) -> None:
    with pytest.raises(DeclarationError) as caught:
        Retry(attempts=attempts)

    assert caught.value.code == "X_JOB_DECLARATION_INVALID"


BODIES: dict[str, Callable[..., Any]] = {
    "a lambda": lambda run: None,
    "a generator": generator,
    "an asynchronous generator": asynchronous_generator,
    "a function of nothing": of_nothing,
    "a function of two": of_two,
    "a function of a keyword": of_keyword_only,
    "a function of anything": of_any,
    "a partial": functools.partial(of_two, other=1),
    "an object": Callee(),
    "a class": Callee,
    "a builtin": len,
}


@pytest.mark.parametrize("name", ["tests.refused", None], ids=["named", "unnamed"])
@pytest.mark.parametrize("case", BODIES)
def test_a_body_is_a_named_function_of_the_run(case: str, name: str | None) -> None:
    assert refused({"name": name}, of=BODIES[case]).code == "X_JOB_DECLARATION_INVALID"


def test_a_body_may_take_more_when_it_has_a_default() -> None:
    with declared(with_default) as handle:
        assert handle.spec.body is with_default


# The handle


def test_the_handle_answers_every_declared_field_resolved() -> None:
    def hook(ended: Settled[Ping]) -> None:
        """Be told."""

    with declared(
        body,
        name="tests.whole",
        queue="mail",
        retry=Retry(attempts=5),
        concurrency=Concurrency(key=lambda i: i.key, limit=2, when_busy="fail"),
        timeout="90s",
        on_settled=hook,
        on_settled_timeout=5,
    ) as handle:
        assert handle.kind == "job"
        assert (handle.name, handle.queue) == ("tests.whole", "mail")
        assert handle.retry == Retry(attempts=5)
        assert (handle.concurrency, handle.when_busy) == (2, "fail")
        assert handle.timeout == timedelta(seconds=90)
        assert handle.on_settled_timeout == timedelta(seconds=5)
        assert handle.spec.on_settled is hook


def test_the_handle_answers_the_defaults_of_what_was_not_declared() -> None:
    with declared(body, retry=Retry()) as handle:
        assert (handle.queue, handle.retry) == ("default", Retry(attempts=3))
        assert (handle.concurrency, handle.when_busy, handle.timeout) == (None, None, None)
        assert handle.on_settled_timeout == timedelta(seconds=30)


def test_a_cap_without_a_key_has_nothing_to_do_when_busy() -> None:
    with declared(body, concurrency=4) as handle:
        assert (handle.concurrency, handle.when_busy) == (4, None)
        assert handle.concurrency_key_for(Ping("k")) is None


def test_the_handle_reads_like_its_function() -> None:
    with declared(body, name="tests.reads") as handle:
        assert (handle.__name__, handle.__module__) == ("body", __name__)
        assert handle.__doc__ == "Say what it does."
        assert repr(handle) == "<job tests.reads>"


def test_a_handle_is_not_called() -> None:
    with declared(body) as handle:
        assert not callable(handle)


def test_the_declaration_cannot_be_changed() -> None:
    with declared(body) as handle:
        with pytest.raises(dataclasses.FrozenInstanceError):
            handle.spec.queue = "other"  # type: ignore[misc]
        with pytest.raises(AttributeError):
            handle.queue = "other"  # type: ignore[misc]


def test_a_handle_parses_stored_payloads() -> None:
    with declared(body) as handle:
        assert handle.parse({"key": "k", "org": "o", "load": [1]}) == Ping("k", "o", [1])
        with pytest.raises(InputInvalid):
            handle.parse({"org": "o"})


def test_a_handle_computes_the_keys_of_an_input() -> None:
    with declared(body, concurrency=Concurrency(key=lambda i: f"org:{i.org}", limit=1)) as handle:
        assert handle.idempotency_key_for(Ping("k")) == "k"
        assert handle.concurrency_key_for(Ping("k", "o")) == "org:o"
        with pytest.raises(InvariantError):
            handle.idempotency_key_for(Ping(""))


# The manifest entry


def test_the_manifest_entry_is_plain_and_holds_no_application_data() -> None:
    with declared(
        body,
        name="tests.manifest",
        queue="mail",
        retry=Retry(attempts=5, backoff="linear"),
        concurrency=Concurrency(key=lambda i: i.key, limit=2),
    ) as handle:
        entry = handle.describe()

    assert json.loads(json.dumps(entry)) == entry
    shape = entry.pop("input")
    assert entry == {
        "kind": "job",
        "name": "tests.manifest",
        "queue": "mail",
        "retry": {"attempts": 5, "backoff": "linear"},
        "steps": [],
        "idempotent": True,
        "concurrency": {"limit": 2, "keyed": True, "when_busy": "wait"},
    }
    assert set(shape["$defs"]["Ping"]["properties"]) == {"key", "org", "load"}


@pytest.mark.parametrize(
    ("cap", "described"),
    [(None, None), (4, {"limit": 4, "keyed": False, "when_busy": None})],
)
def test_the_manifest_entry_describes_the_cap(cap: int | None, described: object) -> None:
    with declared(body, concurrency=cap) as handle:
        assert handle.describe()["concurrency"] == described


class NoSchema:
    """A schema of an application's own that cannot describe itself."""

    def parse(self, raw: object) -> Ping:
        return Ping(str(raw))

    def dump(self, value: Ping) -> str:
        return value.key

    def json_schema(self) -> dict[str, Any]:
        raise NotImplementedError


class Arbitrary(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)

    thing: Callee | None = None


@pytest.mark.parametrize("shape", [NoSchema(), Arbitrary], ids=["own", "model"])
def test_an_input_that_cannot_be_described_is_described_loosely(shape: object) -> None:
    with declared(body, input=shape) as handle:
        assert handle.describe()["input"] == {"type": "object"}


def test_only_the_decorator_makes_a_job() -> None:
    class LookAlike:
        name = "tests.look-alike"
        spec = None
        kind = "job"

    before = registry.names()
    LookAlike()

    assert registry.names() == before
    assert all(type(handle) is Job for handle in registry)


def test_a_coroutine_function_is_a_body() -> None:
    body: Any = asynchronous
    with declared(body) as ping:
        assert ping.spec.body is asynchronous
