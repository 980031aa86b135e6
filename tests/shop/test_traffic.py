"""The demo's orders: the same again from the same seed, with some of every kind."""

from __future__ import annotations

from collections import Counter
from random import Random

from testproject.demo.traffic import ADDRESSES, CARDS, SKUS, NewOrder, some_orders


def orders(seed: int) -> list[NewOrder]:
    return some_orders(1_000, refuse_every=10, dice=Random(seed))  # noqa: S311


def test_a_seed_repeats_them() -> None:
    assert orders(1) == orders(1) != orders(2)


def test_every_kind_is_among_them() -> None:
    made = orders(1)

    assert {order.card for order in made} == set(CARDS)
    assert {order.address for order in made} == set(ADDRESSES)
    assert {order.sku for order in made} == set(SKUS)
    assert Counter(order.fail for order in made) == {False: 900, True: 100}
    assert 0 < sum(order.is_hopeless for order in made) < 200
