"""A body works for the tenant that its input names, and for no other."""

from __future__ import annotations

import pytest

from tests.builders import Declarations, Ping, states
from tests.worker.running import work
from ultimate_jobs import NO_TENANT, Actor, Retry, Run, acting_as, current_actor, current_tenant
from ultimate_jobs.models import Job as JobRow

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_body_runs_for_the_tenant_its_input_names(declare: Declarations) -> None:
    def body(run: Run[Ping]) -> list[str | None]:
        return [run.tenant, current_tenant()]

    ping = declare(body, tenant=lambda i: i.org)
    ping.enqueue_many([Ping("a", org="acme"), Ping("b", org="bolt")])

    work(ping, concurrency=1)

    results = JobRow.objects.order_by("idempotency_key").values_list("result", flat=True)
    assert list(results) == [["acme", "acme"], ["bolt", "bolt"]]


def test_a_body_of_no_tenant_runs_without_one_whoever_enqueued_it(declare: Declarations) -> None:
    def body(run: Run[Ping]) -> str:
        assert run.tenant is None
        return current_tenant()

    ping = declare(body, tenant=NO_TENANT, retry=Retry(attempts=1))
    ping.enqueue_as(Actor(id="u-1", org="acme"), Ping("a"))

    with acting_as(Actor(org="of the worker")):
        work(ping)

    row = JobRow.objects.get()
    assert row.tenant_id == "acme"
    assert row.state == "dead"
    assert "X_TENANCY_ACTOR_ORG_REQUIRED" in str(row.last_error)


def test_a_body_has_not_the_identity_of_whoever_enqueued_it(declare: Declarations) -> None:
    def body(run: Run[Ping]) -> list[object]:
        actor = current_actor()
        assert actor is not None
        return [actor.id, actor.org, sorted(actor.capabilities)]

    ping = declare(body, tenant=lambda i: i.org)
    ping.enqueue_as(
        Actor(id="u-1", org="acme", capabilities=frozenset({"tenancy:cross"})), Ping("a")
    )

    work(ping)

    row = JobRow.objects.get()
    assert row.enqueued_by == "u-1"
    assert row.result == [None, "acme", []]


def test_a_row_of_another_tenant_than_its_input_is_refused_before_the_body(
    declare: Declarations,
) -> None:
    starts: list[str] = []
    ping = declare(
        lambda run: starts.append(run.input.key), tenant=lambda i: i.org, retry=Retry(attempts=5)
    )
    ping.enqueue(Ping("a", org="acme"), tenant="acme")
    JobRow.objects.update(tenant_id="bolt")

    work(ping)

    row = JobRow.objects.get()
    assert starts == []
    assert (row.state, row.attempt) == ("dead", 1)
    assert "X_JOB_TENANT_MISMATCH" in str(row.last_error)


def test_a_row_without_a_tenant_is_never_compared(declare: Declarations) -> None:
    ping = declare(tenant=lambda i: i.org)
    ping.enqueue(Ping("a", org="acme"))
    JobRow.objects.update(tenant_id=None)

    work(ping)

    assert states() == {"done": 1}


@pytest.mark.parametrize("answer", ["", None, 7], ids=["empty", "none", "number"])
def test_a_tenant_that_is_no_text_fails_the_attempt_before_the_body(
    declare: Declarations, answer: object
) -> None:
    starts: list[str] = []
    tenants: list[object] = ["acme"]
    ping = declare(
        lambda run: starts.append(run.input.key),
        tenant=lambda i: tenants[-1],
        retry=Retry(attempts=1),
    )
    ping.enqueue(Ping("a"))
    tenants.append(answer)

    work(ping)

    assert starts == []
    assert states() == {"dead": 1}
    assert "X_INVARIANT" in str(JobRow.objects.get().last_error)
