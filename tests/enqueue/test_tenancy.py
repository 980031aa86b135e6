"""Who is at work: ambient, replaced by the block, and never authority."""

from __future__ import annotations

import threading

import pytest

from ultimate_jobs import Actor, acting_as, cross_tenant, current_actor, current_tenant
from ultimate_jobs.errors import ActorOrgRequired, CrossTenantDenied, InvariantError
from ultimate_jobs.tenancy import CROSS_CAPABILITY, in_tenant, is_crossing

ADA = Actor(id="ada", org="acme", capabilities=frozenset({"read"}))
CROSSER = Actor(id="ada", org="acme", capabilities=frozenset({CROSS_CAPABILITY}))


def test_nobody_is_at_work_outside_a_block() -> None:
    assert current_actor() is None
    with pytest.raises(ActorOrgRequired) as caught:
        current_tenant()
    assert caught.value.code == "X_TENANCY_ACTOR_ORG_REQUIRED"


def test_an_actor_is_at_work_inside_the_block_and_the_one_before_it_afterwards() -> None:
    with acting_as(ADA):
        assert current_actor() is ADA
        assert current_tenant() == "acme"
        with acting_as(None):
            assert current_actor() is None
        assert current_actor() is ADA
    assert current_actor() is None


@pytest.mark.parametrize("actor", [None, Actor(id="ada"), Actor(id="ada", org="")])
def test_without_a_tenant_a_read_that_needs_one_fails_closed(actor: Actor | None) -> None:
    with acting_as(actor), pytest.raises(ActorOrgRequired):
        current_tenant()


def test_a_block_that_raises_puts_the_actor_back() -> None:
    with pytest.raises(ZeroDivisionError), acting_as(ADA):
        _ = 1 / 0
    assert current_actor() is None


def test_moving_to_a_tenant_keeps_who_it_is() -> None:
    with acting_as(ADA), in_tenant("other"):
        assert current_actor() == Actor(id="ada", org="other", capabilities=frozenset({"read"}))
    with acting_as(ADA), in_tenant(None), pytest.raises(ActorOrgRequired):
        current_tenant()
    with in_tenant("other"):
        assert current_actor() == Actor(org="other")


def test_a_thread_starts_with_nobody_at_work() -> None:
    seen: list[Actor | None] = []
    with acting_as(ADA):
        thread = threading.Thread(target=lambda: seen.append(current_actor()))
        thread.start()
        thread.join()

    assert seen == [None]


def test_crossing_needs_the_capability_and_a_reason() -> None:
    with acting_as(ADA):
        with pytest.raises(CrossTenantDenied) as caught:
            cross_tenant("support").__enter__()
        assert caught.value.code == "X_TENANCY_CROSS_DENIED"
    with acting_as(CROSSER):
        with pytest.raises(InvariantError):
            cross_tenant("").__enter__()
        assert not is_crossing()


def test_crossing_ends_with_its_block() -> None:
    with acting_as(CROSSER):
        with cross_tenant("support"):
            assert is_crossing()
            assert current_tenant() == "acme"
        assert not is_crossing()


def test_nobody_may_not_cross_either() -> None:
    with pytest.raises(CrossTenantDenied):
        cross_tenant("a script").__enter__()
    assert not is_crossing()
