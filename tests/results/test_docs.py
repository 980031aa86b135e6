"""The examples of the page about results run, and its table of errors is whole."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from tests.worker.running import on_duty
from ultimate_jobs import errors
from ultimate_jobs.definitions.registry import registry

PAGE = (Path(__file__).parents[2] / "docs" / "results.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def page() -> Iterator[Any]:
    """A module in which all examples have run, in their order."""
    module = ModuleType("docs_results")
    sys.modules[module.__name__] = module
    for text in EXAMPLES:
        exec(compile(text, module.__name__, "exec", dont_inherit=True), vars(module))  # noqa: S102
    yield module
    registry.discard(vars(module)["quote"])
    del sys.modules[module.__name__]


@pytest.mark.django_db(transaction=True)
def test_the_examples_answer_what_they_say(page: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with on_duty(page.quote):
        assert page.price_of("acme", 4) == 8
        assert async_to_sync(page.prices)("acme", [1, 2]) == [2, 4]

        refused = page.quote.enqueue(page.Quote("acme", -1))
        with pytest.raises(errors.JobFailed):
            refused.result()
        assert page.price_or_nothing("acme", -2) is None

    assert capsys.readouterr().out == "'docs_results.quote' has failed for good: ValueError.\n"


def test_every_error_is_on_the_page() -> None:
    documented = re.findall(r"^\| `(\w+)` \| `(X_\w+)` \|", PAGE, re.MULTILINE)

    assert documented == [
        (kind.__name__, kind.code) for kind in errors.ResultError.__subclasses__()
    ]
