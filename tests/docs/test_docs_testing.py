"""The tests that the page about testing shows, pass."""

from __future__ import annotations

import ast
import sys
import unittest
from collections.abc import Iterator

import pytest

from tests.docs.test_docs_examples import Examples, Payments, examples
from ultimate_jobs.testing import JobsKit
from ultimate_jobs.testing.plugin import jobs

__all__ = ["jobs"]

PAGE = "docs/testing.md"
TESTS = [
    (text, node.name)
    for text in examples(PAGE)
    for node in ast.parse(text).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
]


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Examples]:
    """Let the examples find the page's own `shop.jobs`, and a client of payments."""
    monkeypatch.setitem(sys.modules, "payments", Payments())
    found = Examples()
    monkeypatch.setitem(sys.modules, "shop.jobs", found.run(examples(PAGE)[0]))
    yield found
    found.forget()


@pytest.mark.django_db
@pytest.mark.parametrize(("text", "name"), TESTS, ids=[name for _, name in TESTS])
def test_an_example_passes(text: str, name: str, shop: Examples, jobs: JobsKit) -> None:
    example = shop.run(text)

    getattr(example, name)(jobs)


@pytest.mark.django_db(transaction=True)
def test_the_test_case_of_the_page_passes(shop: Examples) -> None:
    (text,) = (text for text in examples(PAGE) if "JobsTestCase)" in text)
    case = shop.run(text).CheckoutTest
    result = unittest.TestResult()

    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)

    assert result.testsRun == 1
    assert result.errors + result.failures == []


def test_no_example_is_left_out() -> None:
    texts = {text for text, _ in TESTS}
    others = [text for text in examples(PAGE) if text not in texts]

    assert ["@job(" in text or "JobsTestCase)" in text for text in others] == [True, True]
    assert len(TESTS) >= 7
