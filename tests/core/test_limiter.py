"""The limiter of one process: which cap refuses, what is counted, and what is remembered."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ultimate_jobs.core.limiter import (
    FORGET_REFUSALS_AFTER,
    NO_LIMITS,
    ConcurrencyLimiter,
    Limits,
    Reason,
    Refusal,
    Ticket,
)
from ultimate_jobs.errors import InvariantError


def admitted(
    limiter: ConcurrencyLimiter, queue: str = "q", tenant: str | None = "acme", now: float = 0.0
) -> Ticket:
    ticket = limiter.admit(queue, tenant, now)
    assert isinstance(ticket, Ticket)
    return ticket


def refused(
    limiter: ConcurrencyLimiter, queue: str = "q", tenant: str | None = "acme", now: float = 0.0
) -> Reason:
    refusal = limiter.admit(queue, tenant, now)
    assert isinstance(refusal, Refusal)
    return refusal.reason


def test_without_caps_everything_is_admitted_and_nobody_is_remembered() -> None:
    limiter = ConcurrencyLimiter(NO_LIMITS)
    for number in range(100):
        admitted(limiter, tenant=f"t{number}")

    assert len(limiter) == 0


class TestCaps:
    def test_each_tenant_has_its_places(self) -> None:
        limiter = ConcurrencyLimiter(Limits(per_tenant=2))
        admitted(limiter)
        admitted(limiter, queue="other")

        assert refused(limiter) is Reason.PER_TENANT
        admitted(limiter, tenant="globex")

    def test_each_queue_has_its_places(self) -> None:
        limiter = ConcurrencyLimiter(Limits(per_queue=1))
        admitted(limiter)

        assert refused(limiter, tenant="globex") is Reason.PER_QUEUE
        admitted(limiter, queue="other")

    def test_the_process_has_its_places(self) -> None:
        limiter = ConcurrencyLimiter(Limits(overall=2))
        admitted(limiter)
        admitted(limiter, queue="other", tenant=None)

        assert refused(limiter, queue="third", tenant="globex") is Reason.OVERALL

    def test_a_run_without_a_tenant_is_under_no_cap_of_tenants(self) -> None:
        limiter = ConcurrencyLimiter(Limits(per_tenant=0, rate_per_tenant=(0, "1m")))

        admitted(limiter, tenant=None)

    @pytest.mark.parametrize(
        ("limits", "reason"),
        [
            (Limits(overall=0), Reason.OVERALL),
            (Limits(per_queue=0), Reason.PER_QUEUE),
            (Limits(per_tenant=0), Reason.PER_TENANT),
            (Limits(rate_per_tenant=(0, "1m")), Reason.RATE_PER_TENANT),
        ],
    )
    def test_zero_is_a_hard_stop(self, limits: Limits, reason: Reason) -> None:
        limiter = ConcurrencyLimiter(limits)

        assert [refused(limiter, now=now) for now in (0.0, 1e9)] == [reason, reason]

    @pytest.mark.parametrize("end", [Ticket.release, Ticket.abandon])
    def test_a_place_is_given_back_once(self, end: Any) -> None:
        limiter = ConcurrencyLimiter(Limits(per_tenant=1, per_queue=1, overall=1))
        ticket = admitted(limiter)
        ticket.started()
        end(ticket)
        end(ticket)
        ticket.release()

        second = admitted(limiter)
        assert refused(limiter) is Reason.OVERALL
        second.release()
        admitted(limiter)

    def test_a_refusal_takes_no_place(self) -> None:
        limiter = ConcurrencyLimiter(Limits(per_tenant=1, overall=2))
        admitted(limiter)
        refused(limiter)

        admitted(limiter, tenant="globex")


class TestRate:
    limits = Limits(rate_per_tenant=(2, "10s"))

    def test_starts_are_counted_whatever_became_of_them(self) -> None:
        limiter = ConcurrencyLimiter(self.limits)
        for _ in range(2):
            ticket = admitted(limiter)
            ticket.started()
            ticket.release()

        assert refused(limiter) is Reason.RATE_PER_TENANT
        admitted(limiter, tenant="globex")
        admitted(limiter, now=5.0)
        assert refused(limiter, now=5.0) is Reason.RATE_PER_TENANT

    def test_a_run_that_never_began_is_not_counted(self) -> None:
        limiter = ConcurrencyLimiter(self.limits)
        for _ in range(10):
            admitted(limiter).abandon()

        admitted(limiter)
        admitted(limiter)
        assert refused(limiter) is Reason.RATE_PER_TENANT

    def test_a_run_that_began_stays_counted_even_if_it_is_abandoned(self) -> None:
        limiter = ConcurrencyLimiter(self.limits)
        for _ in range(2):
            ticket = admitted(limiter)
            ticket.started()
            ticket.abandon()

        assert refused(limiter) is Reason.RATE_PER_TENANT

    def test_a_refusal_by_another_cap_costs_no_start(self) -> None:
        limiter = ConcurrencyLimiter(Limits(per_tenant=1, rate_per_tenant=(2, "10s")))
        first = admitted(limiter)
        for _ in range(5):
            assert refused(limiter) is Reason.PER_TENANT
        first.release()

        admitted(limiter)

    def test_what_is_given_back_never_overfills(self) -> None:
        limiter = ConcurrencyLimiter(self.limits)
        late = admitted(limiter)
        admitted(limiter, now=100.0).started()
        late.abandon()

        admitted(limiter, now=100.0)
        assert refused(limiter, now=100.0) is Reason.RATE_PER_TENANT


class TestMemory:
    def test_it_remembers_so_many_tenants_and_no_more(self) -> None:
        limiter = ConcurrencyLimiter(Limits(per_tenant=1), max_tenants=100)
        for number in range(1_000):
            admitted(limiter, tenant=f"t{number}").release()

        assert len(limiter) <= 100

    def test_the_least_throttled_are_forgotten_first(self) -> None:
        limiter = ConcurrencyLimiter(Limits(rate_per_tenant=(1, "1h")), max_tenants=20)
        admitted(limiter, tenant="noisy").release()
        assert refused(limiter, tenant="noisy") is Reason.RATE_PER_TENANT
        for number in range(200):
            admitted(limiter, tenant=f"t{number}").release()

        assert refused(limiter, tenant="noisy") is Reason.RATE_PER_TENANT

    def test_among_equals_those_with_the_most_left_are_forgotten_first(self) -> None:
        limiter = ConcurrencyLimiter(Limits(rate_per_tenant=(2, "1h")), max_tenants=20)
        for _ in range(2):
            admitted(limiter, tenant="spent").release()
        for number in range(200):
            admitted(limiter, tenant=f"t{number}").release()

        assert refused(limiter, tenant="spent") is Reason.RATE_PER_TENANT

    def test_who_has_something_running_is_never_forgotten(self) -> None:
        limiter = ConcurrencyLimiter(Limits(per_tenant=1), max_tenants=4)
        admitted(limiter, tenant="busy")
        for number in range(50):
            admitted(limiter, tenant=f"t{number}").release()

        assert refused(limiter, tenant="busy") is Reason.PER_TENANT

    def test_refusals_are_forgotten_after_a_minute(self) -> None:
        limiter = ConcurrencyLimiter(Limits(per_tenant=0))
        for _ in range(3):
            refused(limiter, now=10.0)

        assert limiter.throttled("acme", 10.0 + FORGET_REFUSALS_AFTER - 1) == 3
        assert limiter.throttled("acme", 10.0 + FORGET_REFUSALS_AFTER) == 0
        refused(limiter, now=10.0 + FORGET_REFUSALS_AFTER)
        assert limiter.throttled("acme", 10.0 + FORGET_REFUSALS_AFTER) == 1
        assert limiter.throttled("nobody", 0.0) == 0


BAD: list[dict[str, Any]] = [
    *[{"per_tenant": cap} for cap in (-1, 1.5, math.inf, math.nan, True, "5", 10**9)],
    {"per_queue": -1},
    {"overall": math.inf},
    *[
        {"rate_per_tenant": rate}
        for rate in ((-1, "1m"), (math.inf, "1m"), (1, 0), (1, "soon"), (1,), "1/1m", 5, (True, 1))
    ],
]


@pytest.mark.parametrize("caps", BAD, ids=str)
def test_a_cap_that_cannot_be_meant_is_refused(caps: dict[str, Any]) -> None:
    with pytest.raises(InvariantError) as said:
        Limits(**caps)

    assert next(iter(caps)) in str(said.value)


def test_every_mistake_is_named() -> None:
    with pytest.raises(InvariantError) as said:
        Limits(per_tenant=-1, per_queue=-1, overall=-1, rate_per_tenant=(-1, -1))

    text = str(said.value)
    assert all(name in text for name in ("per_tenant", "per_queue", "overall", "window"))
    assert text.count("must be") == 5


calls = st.lists(
    st.tuples(
        st.sampled_from(["admit", "release", "abandon"]),
        st.sampled_from(["q1", "q2"]),
        st.sampled_from(["a", "b", None]),
        st.floats(0, 5),
    ),
    max_size=60,
)


@given(calls)
def test_no_cap_is_ever_exceeded_and_everything_given_back_is_free_again(
    steps: list[tuple[str, str, str | None, float]],
) -> None:
    limits = Limits(per_tenant=2, per_queue=3, overall=4, rate_per_tenant=(5, "20s"))
    limiter = ConcurrencyLimiter(limits, max_tenants=1)
    held: list[tuple[Ticket, str, str | None]] = []
    now = 0.0
    for verb, queue, tenant, passed in steps:
        now += passed
        if verb == "admit":
            ticket = limiter.admit(queue, tenant, now)
            if isinstance(ticket, Ticket):
                held.append((ticket, queue, tenant))
        elif held:
            getattr(held.pop(0)[0], verb)()
        assert len(held) <= 4
        assert all(sum(q == queue for _, q, _ in held) <= 3 for queue in ("q1", "q2"))
        assert all(sum(t == tenant for _, _, t in held) <= 2 for tenant in ("a", "b"))

    for ticket, _, _ in held:
        ticket.release()
    for _ in range(2):
        admitted(limiter, tenant="a", now=now + 1_000)
