"""Every refusal has its code, comes before a write, and leaves the caller's transaction usable."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction  # noqa: TID251 - to watch statements
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from testproject.shop.models import Order
from tests.builders import Declarations, Ping, a_job, relay_all, staged
from ultimate_jobs import NO_TENANT, Actor, Concurrency, Job, Retry, acting_as, cross_tenant, job
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.definitions.registry import registry
from ultimate_jobs.errors import (
    EnqueueBatchTooLarge,
    InputInvalid,
    InputTooLarge,
    JobsError,
    LiveKeyTaken,
    TenantMismatch,
)
from ultimate_jobs.models import Job as JobRow, OutboxEntry

pytestmark = pytest.mark.django_db(transaction=True)

INPUTS = Path(__file__).parent.parent / "cases" / "inputs"
SECRET = "a-secret-value"

Handle = Job[Ping, object]


def deep(levels: int) -> object:
    value: object = SECRET
    for _ in range(levels):
        value = [value]
    return value


class Unprintable:
    def __repr__(self) -> str:
        raise AssertionError("nobody may print this")

    __str__ = __repr__


WRONG_OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "run_id in capitals": ("X_ID_INVALID", {"run_id": "A" * 8 + "-0000-4000-8000-" + "0" * 12}),
    "run_id without dashes": ("X_ID_INVALID", {"run_id": "0" * 32}),
    "run_id with a newline": (
        "X_ID_INVALID",
        {"run_id": "0" * 8 + "-0000" * 3 + "-" + "0" * 12 + "\n"},
    ),
    "run_id of another type": ("X_ID_INVALID", {"run_id": 7}),
    "delay and run_at": ("X_INVARIANT", {"delay": 1, "run_at": datetime.max.replace(tzinfo=UTC)}),
    "negative delay": ("X_INVARIANT", {"delay": -1}),
    "nan delay": ("X_INVARIANT", {"delay": float("nan")}),
    "delay in words": ("X_INVARIANT", {"delay": "soon"}),
    "delay past ten years": ("X_INVARIANT", {"delay": "99999d"}),
    "naive run_at": ("X_INVARIANT", {"run_at": datetime(2031, 1, 1)}),  # noqa: DTZ001
    "run_at as text": ("X_INVARIANT", {"run_at": "2031-01-01"}),
    "run_at as a number": ("X_INVARIANT", {"run_at": 1_900_000_000}),
    "priority too large": ("X_INVARIANT", {"priority": 2**31}),
    "priority too small": ("X_INVARIANT", {"priority": -(2**31) - 1}),
    "priority as a fraction": ("X_INVARIANT", {"priority": 1.0}),
    "priority as a truth": ("X_INVARIANT", {"priority": True}),
    "empty queue": ("X_INVARIANT", {"queue": ""}),
    "long queue": ("X_INVARIANT", {"queue": "q" * 201}),
    "queue with NUL": ("X_INVARIANT", {"queue": "a\x00b"}),
    "empty tenant": ("X_INVARIANT", {"tenant": ""}),
    "empty enqueued_by": ("X_INVARIANT", {"enqueued_by": ""}),
    "tenant of another type": ("X_INVARIANT", {"tenant": 7}),
    "tenant with NUL": ("X_INVARIANT", {"tenant": "a\x00b"}),
    "enqueued_by with half a pair": ("X_INVARIANT", {"enqueued_by": "\ud800"}),
    "traceparent": ("X_INVARIANT", {"traceparent": SECRET}),
    "traceparent in capitals": ("X_INVARIANT", {"traceparent": f"00-{'A' * 32}-{'b' * 16}-01"}),
    "related to nothing saved": ("X_INVARIANT", {"related": Order(reference="a", amount=1)}),
    "related to a value": ("X_INVARIANT", {"related": SECRET}),
    "on_conflict": ("X_INVARIANT", {"on_conflict": SECRET}),
    "using": ("X_OUTBOX_WRONG_DATABASE", {"using": "elsewhere"}),
}

WRONG_INPUTS: dict[str, tuple[str, Any]] = {
    "NUL in a text": ("X_JOB_INPUT_INVALID", Ping("k", load={"file": f"{SECRET}\x00"})),
    "NUL in a key": ("X_JOB_INPUT_INVALID", Ping("k", load={"nested": [{"k\x00": 1}]})),
    "half a surrogate pair": ("X_JOB_INPUT_INVALID", Ping("k", load=SECRET + "\ud800")),
    "nan": ("X_JOB_INPUT_INVALID", Ping("k", load=float("nan"))),
    "bytes": ("X_JOB_INPUT_INVALID", Ping("k", load=SECRET.encode())),
    "a set": ("X_JOB_INPUT_INVALID", Ping("k", load={SECRET})),
    "an object that cannot be printed": ("X_JOB_INPUT_INVALID", Ping("k", load=Unprintable())),
    "too deep": ("X_JOB_INPUT_INVALID", Ping("k", load=deep(300))),
    "another type": ("X_JOB_INPUT_INVALID", SECRET),
    "a field of another type": ("X_JOB_INPUT_INVALID", Ping(key=7)),  # type: ignore[arg-type]
    "too large": ("X_JOB_INPUT_TOO_LARGE", Ping("k", load=SECRET * 400_000)),
    "an empty key": ("X_INVARIANT", Ping("")),
    "a long key": ("X_INVARIANT", Ping("k" * 1_001)),
}


def refused(enqueue: Callable[[], object]) -> JobsError:
    """Enqueue in a transaction beside a business row; commit; answer the refusal."""
    with transaction.atomic():
        beside = Order.objects.create(reference=str(new_id()), amount=Decimal(1))
        with CaptureQueriesContext(connection) as statements, pytest.raises(JobsError) as caught:
            enqueue()
        assert list(statements) == [], "a refusal comes before the first statement"
        Order.objects.filter(pk=beside.pk).update(amount=Decimal(2))

    beside.refresh_from_db()
    assert beside.amount == 2
    assert not JobRow.objects.exists()
    assert not OutboxEntry.objects.exists()
    assert SECRET not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("case", WRONG_OPTIONS)
def test_a_wrong_option_is_refused_before_any_statement(declare: Declarations, case: str) -> None:
    code, options = WRONG_OPTIONS[case]
    note = declare()

    assert refused(lambda: note.enqueue(Ping("k"), **options)).code == code


@pytest.mark.parametrize("case", WRONG_INPUTS)
def test_a_wrong_input_is_refused_before_any_statement(declare: Declarations, case: str) -> None:
    code, ping = WRONG_INPUTS[case]
    note = declare()

    assert refused(lambda: note.enqueue(ping)).code == code


@pytest.mark.parametrize("case", WRONG_INPUTS)
def test_one_wrong_input_refuses_the_whole_batch(declare: Declarations, case: str) -> None:
    code, ping = WRONG_INPUTS[case]
    note = declare()
    batch = [*(Ping(f"k-{n}") for n in range(1_500)), ping]

    assert refused(lambda: note.enqueue_many(batch)).code == code


@pytest.mark.parametrize("case", sorted({*WRONG_OPTIONS} - {"run_id of another type"}))
def test_a_wrong_option_refuses_the_whole_batch(declare: Declarations, case: str) -> None:
    code, options = WRONG_OPTIONS[case]
    note = declare()
    expected = "X_INVARIANT" if "run_id" in options else code

    assert refused(lambda: note.enqueue_many([Ping("k")], **options)).code == expected


@pytest.mark.parametrize("options", [{"run_id": new_id()}, {"on_conflict": "error"}])
def test_a_batch_takes_no_run_id_and_raises_no_conflict(
    declare: Declarations, options: dict[str, Any]
) -> None:
    note = declare()

    assert refused(lambda: note.enqueue_many([Ping("k")], **options)).code == "X_INVARIANT"


def test_a_batch_has_at_most_ten_thousand_inputs(declare: Declarations) -> None:
    note = declare()

    error = refused(lambda: note.enqueue_many([Ping("k")] * 10_001))

    assert type(error) is EnqueueBatchTooLarge
    assert len(note.enqueue_many([Ping("k")] * 10_000)) == 10_000


@pytest.mark.parametrize("key", ["", 7, None, "k" * 201])
def test_a_wrong_concurrency_key_is_refused_before_any_statement(
    declare: Declarations, key: Any
) -> None:
    capped = declare(concurrency=Concurrency(key=lambda i: key, limit=1))

    assert refused(lambda: capped.enqueue(Ping("k"))).code == "X_JOB_DECLARATION_INVALID"


def test_a_refusal_names_the_path_inside_the_value_and_not_the_value(
    declare: Declarations,
) -> None:
    note = declare()

    error = refused(lambda: note.enqueue(Ping("k", load={"a": [1, {"b": float("inf")}]})))

    assert "$.load.a[1].b" in str(error)


def test_the_tenant_is_judged_before_the_run_id_and_the_run_id_before_the_key(
    declare: Declarations,
) -> None:
    note = declare(
        tenant=lambda i: i.org, concurrency=Concurrency(key=lambda i: i.load or "", limit=1)
    )
    wrong = Ping(key="", org="t-1")

    codes = [
        refused(lambda: note.enqueue(wrong, tenant="t-2", run_id="x")).code,
        refused(lambda: note.enqueue(wrong, tenant="t-1", run_id="x")).code,
        refused(lambda: note.enqueue(wrong, tenant="t-1")).code,
        refused(lambda: note.enqueue(Ping("k", org="t-1"))).code,
    ]

    assert codes == [
        "X_JOB_TENANT_MISMATCH",
        "X_ID_INVALID",
        "X_INVARIANT",
        "X_JOB_DECLARATION_INVALID",
    ]


# Text that cannot be stored


def test_the_text_backslash_u0000_is_ordinary_text(declare: Declarations) -> None:
    payload = json.loads((INPUTS / "nul-payload.json").read_text())
    note = declare()
    ordinary = payload["literal_backslash_u"]
    assert ordinary == "\\u0000"

    note.enqueue(Ping("direct", load=ordinary))
    with transaction.atomic():
        note.enqueue(Ping("staged", load=ordinary))
    relay_all()

    assert {job.input["load"] for job in JobRow.objects.all()} == {ordinary}


def test_a_payload_with_nul_leaves_the_business_row_to_be_committed(
    declare: Declarations,
) -> None:
    payload = json.loads((INPUTS / "nul-payload.json").read_text())
    note = declare()

    assert type(refused(lambda: note.enqueue(Ping("k", load=payload)))) is InputInvalid


# A key that is taken


@pytest.mark.parametrize("inside", [False, True], ids=["direct", "in a transaction"])
def test_on_request_a_live_key_is_an_error_that_names_the_job(
    declare: Declarations, *, inside: bool
) -> None:
    note = declare()
    holder = a_job(name=note.name, idempotency_key="k")

    def enqueue() -> None:
        with transaction.atomic() if inside else nullcontext():
            note.enqueue(Ping("k"), on_conflict="error")

    with pytest.raises(LiveKeyTaken) as caught:
        enqueue()

    assert caught.value.code == "X_JOB_DUPLICATE"
    assert caught.value.meta == {"id": holder.id}
    assert str(holder.id) in str(caught.value)
    assert JobRow.objects.count() == 1
    assert not staged()


def test_on_request_a_free_key_is_no_error(declare: Declarations) -> None:
    assert not declare().enqueue(Ping("k"), on_conflict="error").deduped


# Tenants


def tenant_job(declare: Declarations) -> Handle:
    return declare(tenant=lambda i: i.org)


def test_naming_another_tenant_than_the_input_is_refused(declare: Declarations) -> None:
    note = tenant_job(declare)

    assert type(refused(lambda: note.enqueue(Ping("k", org="t-1"), tenant="t-2"))) is TenantMismatch
    assert refused(lambda: note.enqueue_many([Ping("k", org="t-1")], tenant="t-2")).code


def test_an_actor_of_another_tenant_is_refused(declare: Declarations) -> None:
    note, other = tenant_job(declare), Actor(id="u-1", org="t-2")

    assert type(refused(lambda: note.enqueue_as(other, Ping("k", org="t-1")))) is TenantMismatch
    with acting_as(other):
        assert type(refused(lambda: note.enqueue(Ping("k", org="t-1")))) is TenantMismatch
        mixed = [Ping("a", org="t-2"), Ping("b", org="t-1")]
        assert type(refused(lambda: note.enqueue_many(mixed))) is TenantMismatch


def test_the_same_tenant_and_no_tenant_are_never_compared(declare: Declarations) -> None:
    note = tenant_job(declare)
    with acting_as(Actor(org="t-1")):
        note.enqueue(Ping("a", org="t-1"), tenant="t-1")
    for actor in (Actor(id="u-1"), Actor(id="u-1", org=""), None):
        with acting_as(actor):
            note.enqueue(Ping("b", org="t-1"))
    assert {(j.idempotency_key, j.tenant_id) for j in JobRow.objects.all()} == {
        ("a", "t-1"),
        ("b", None),
    }


def test_a_job_of_no_tenant_is_never_compared(declare: Declarations) -> None:
    with acting_as(Actor(org="t-2")):
        declare(tenant=NO_TENANT).enqueue(Ping("k", org="t-1"), tenant="t-3")

    assert JobRow.objects.get().tenant_id == "t-3"


def test_crossing_tenants_lifts_the_comparison_with_the_actor_at_work_only(
    declare: Declarations,
) -> None:
    note = tenant_job(declare)
    crosser = Actor(id="u-1", org="t-2", capabilities=frozenset({"tenancy:cross"}))

    with acting_as(crosser), cross_tenant("a support request"):
        named = refused(lambda: note.enqueue(Ping("k", org="t-1"), tenant="t-2"))
        explicit = refused(lambda: note.enqueue_as(crosser, Ping("k", org="t-1")))
        note.enqueue(Ping("k", org="t-1"))

    assert type(named) is type(explicit) is TenantMismatch
    assert JobRow.objects.get().tenant_id == "t-2"


def test_the_row_carries_the_enqueuers_tenant_never_one_from_the_input(
    declare: Declarations,
) -> None:
    tenant_job(declare).enqueue(Ping("k", org="t-1"))

    assert JobRow.objects.get().tenant_id is None


@pytest.mark.parametrize("org", ["", 7, None, "a\x00b"])
def test_a_tenant_function_that_answers_no_tenant_is_refused(
    declare: Declarations, org: object
) -> None:
    note = declare(tenant=lambda i: org)

    assert refused(lambda: note.enqueue(Ping("k"))).code == "X_INVARIANT"


def test_tenants_do_not_share_keys(declare: Declarations) -> None:
    note = declare()
    answers = [note.enqueue(Ping("k"), tenant=t) for t in ("t-1", "t-2", None, "t-1")]

    assert [answer.deduped for answer in answers] == [False, False, False, True]


# Size


@pytest.mark.parametrize("inside", [False, True], ids=["direct", "in a transaction"])
@pytest.mark.parametrize("size", [7_999, 8_000, 8_001, 1_000_000])
def test_a_payload_of_any_size_below_the_limit_is_stored(
    declare: Declarations, size: int, *, inside: bool
) -> None:
    note = declare()
    empty = len('{"key":"k","org":"acme","load":""}')
    ping = Ping("k", load="x" * (size - empty))

    if inside:
        with transaction.atomic():
            note.enqueue(ping)
        relay_all()
    else:
        note.enqueue(ping)

    assert JobRow.objects.get().input["load"] == ping.load


def test_the_limit_counts_bytes_of_the_stored_form(
    declare: Declarations, settings: Settings
) -> None:
    settings.ULTIMATE_JOBS = {"MAX_INPUT_BYTES": 2_000}
    note = declare()
    room = 2_000 - len('{"key":"k","org":"acme","load":""}')

    note.enqueue(Ping("k", load="x" * room))
    for load in ("x" * (room + 1), "é" * (room // 2 + 1)):
        with pytest.raises(InputTooLarge) as caught:
            note.enqueue(Ping("l", load=load))
        assert note.name in caught.value.cause
        assert "2,000" in caught.value.cause

    assert JobRow.objects.count() == 1


# Jobs whose functions are wrong


def test_a_key_function_that_raises_reaches_the_caller_before_a_write(
    declare: Declarations,
) -> None:
    def key(ping: Ping) -> str:
        raise ZeroDivisionError

    note = declare(idempotency_key=key)

    with transaction.atomic(), pytest.raises(ZeroDivisionError):
        note.enqueue_many([Ping("a"), Ping("b")])

    assert not staged()


def test_an_input_of_the_wrong_shape_never_reaches_the_key_function() -> None:
    reached: list[object] = []

    def key(value: dict[str, int]) -> str:
        reached.append(value)
        return "k"

    handle = job(
        input=dict[str, int],
        tenant=NO_TENANT,
        idempotency_key=key,
        retry=Retry(),
        name="tests.shape",
    )(_quiet)
    try:
        with pytest.raises(InputInvalid):
            handle.enqueue({"a": SECRET})  # type: ignore[dict-item]
    finally:
        registry.discard(handle)

    assert reached == []


def _quiet(run: object) -> None:
    """Do nothing."""
