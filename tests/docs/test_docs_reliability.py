"""The page about reliability names every promise of the guarantees, and only tests that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.docs.test_docs_reference import ROOT, page, rows, section, spans

PAGE = page("docs/reliability.md")
GUARANTEES = page("docs/guarantees.md")
PROMISING = [
    heading
    for heading in re.findall(r"^## .+$", GUARANTEES, re.MULTILINE)
    if "| What holds |" in section(GUARANTEES, heading)
]


def named() -> list[str]:
    """Answer every test that the page names."""
    return [
        test
        for heading in PROMISING
        for row in rows(section(PAGE, heading))
        for test in spans(row[1])
    ]


@pytest.mark.parametrize("heading", PROMISING)
def test_every_promise_has_tests_that_try_to_break_it(heading: str) -> None:
    promises = [row[0] for row in rows(section(GUARANTEES, heading))]
    tried = {row[0]: spans(row[1]) for row in rows(section(PAGE, heading))}

    assert list(tried) == promises
    assert all(tried.values())


@pytest.mark.parametrize("test", sorted(set(named())))
def test_every_test_that_is_named_exists(test: str) -> None:
    file, _, name = test.partition("::")
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))

    assert name in {"", *names_in(tree)}


def names_in(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from names_in(node, f"{node.name}::")
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield prefix + node.name
