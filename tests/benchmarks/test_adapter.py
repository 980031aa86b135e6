"""The adapter for the harness of many queues: what the harness asks of it, on our tables."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from tests.builders import sql
from ultimate_jobs.definitions.registry import registry

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The adapter, as the harness makes it."""
    harness, hook = ModuleType("adapters"), ModuleType("benchhook")
    vars(harness)["base"] = ModuleType("adapters.base")
    vars(vars(harness)["base"])["Adapter"] = object
    vars(hook)["tick"] = lambda n: None
    monkeypatch.setitem(sys.modules, "adapters", harness)
    monkeypatch.setitem(sys.modules, "benchhook", hook)
    monkeypatch.delitem(sys.modules, "benchmarks.adapter_ultimate_jobs", raising=False)
    peer = import_module("benchmarks.adapter_ultimate_jobs").Peer()
    peer.open_producer()
    yield peer
    for handle in vars(peer.jobs).values():
        registry.discard(handle)
    sys.modules.pop("benchmarks.adapter_ultimate_jobs")


def test_every_way_in_is_counted_as_unfinished(peer: Any) -> None:
    peer.enqueue_one(-1)
    peer.enqueue_many(0, 10)
    peer.durable_enqueue(2)
    assert sql(peer.pending_sql) == [(13,)]


def test_finished_rows_are_added_for_growth(peer: Any) -> None:
    sql(peer.finished_rows_sql % {"n": 3})
    assert sql("SELECT count(*) FROM x_jobs WHERE state = 'done'") == [(3,)]
    assert sql(peer.pending_sql) == [(0,)]
