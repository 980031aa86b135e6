"""The examples about crashes and races do what the page says."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from django.test import TestCase

from testproject.shop.models import Order
from ultimate_jobs.definitions.registry import registry
from ultimate_jobs.errors import CrashDiverged
from ultimate_jobs.testing.simulation import FAULTS

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs/crash-proof.md").read_text("utf-8")

pytestmark = [pytest.mark.django_db, pytest.mark.counts_claims]


class Books(dict[str, str]):
    """A provider that knows its keys."""

    def charge(self, key: str, amount: str) -> str:
        return self.setdefault(key, amount)


class Forgetful(list[str]):
    """A provider that does not."""

    def charge(self, key: str, amount: str) -> str:
        self.append(f"charge {amount}")
        return amount


def example(holds: str) -> str:
    found = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (text,) = (one for one in found if holds in one)
    return str(text)


@pytest.fixture(params=[Books, Forgetful])
def provider(request: pytest.FixtureRequest) -> Any:
    return request.param()


@pytest.fixture
def shop(provider: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    known = set(registry.names())
    for name, holds in {"payments": {"charge": provider.charge}, "shop": {}}.items():
        monkeypatch.setitem(sys.modules, name, module(name, holds))
    monkeypatch.setitem(sys.modules, "shop.gateway", module("shop.gateway", {"gateway": provider}))
    jobs = module("shop.jobs", {})
    monkeypatch.setitem(sys.modules, "shop.jobs", jobs)
    exec(compile(example("# shop/jobs.py"), "shop.jobs", "exec", dont_inherit=True), vars(jobs))  # noqa: S102
    yield
    for declared in [one for one in registry if one.name not in known]:
        registry.discard(declared)


def module(name: str, holds: dict[str, Any]) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(holds)
    return made


def case(holds: str) -> TestCase:
    space: dict[str, Any] = {"__name__": "docs"}
    exec(compile(example(holds), "docs", "exec", dont_inherit=True), space)  # noqa: S102
    (kind,) = (
        one
        for one in space.values()
        if isinstance(one, type) and issubclass(one, TestCase)
        if one is not TestCase
    )
    (name,) = (name for name in vars(kind) if name.startswith("test_"))
    return kind(name)


@pytest.mark.usefixtures("shop")
def test_the_kills(provider: Any) -> None:
    test = case("class PaymentTest")
    forgets = isinstance(provider, Forgetful)

    with pytest.raises(CrashDiverged) if forgets else nullcontext() as failed:
        getattr(test, test._testMethodName)()

    assert not Order.objects.exists()
    if failed is not None:
        told = re.search(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
        assert told is not None
        expected = told[1].rstrip("\n").replace("shop.pay", "shop.jobs.pay")
        assert str(failed.value).startswith(expected)


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("provider", [Books], indirect=True)
def test_the_races() -> None:
    test = case("class RaceTest")

    getattr(test, test._testMethodName)()

    assert not Order.objects.exists()


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("provider", [Books], indirect=True)
def test_the_switch() -> None:
    called: list[bool] = []

    def finish() -> None:
        from ultimate_jobs.steps.runner import StepRunner  # noqa: PLC0415

        called.append(StepRunner.suspends_everywhere)

    space = {"finish_the_order": finish}
    exec(compile(example("finish_the_order()"), "docs", "exec", dont_inherit=True), space)  # noqa: S102

    assert called == [True]


def test_every_fault_is_named() -> None:
    assert re.findall(r'^\| `"(\w+)"` \|', PAGE, re.MULTILINE) == list(FAULTS)
