"""The Python examples of the pages compile, and run against the database."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from testproject.shop.jobs import Checkout
from testproject.shop.models import LedgerEntry, Order, OrderState
from ultimate_jobs import CancelToken, Job, JobsError, Run, conf
from ultimate_jobs.conf import get_settings
from ultimate_jobs.core import retry
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.states import JobState
from ultimate_jobs.definitions.registry import registry
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.enqueue.relay import Relay
from ultimate_jobs.errors import Draining
from ultimate_jobs.models import Job as JobRow, OutboxEntry
from ultimate_jobs.worker.loop import Worker

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def examples(path: str) -> list[str]:
    text = (ROOT / path).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def example(path: str, holds: str) -> str:
    """Answer the one example of a page that holds these words."""
    (found,) = (text for text in examples(path) if holds in text)
    return found


class Examples:
    """Runs examples as modules of their own, and forgets what they declared."""

    def __init__(self) -> None:
        self._modules: list[str] = []
        self._known = set(registry.names())

    def run(self, text: str) -> ModuleType:
        module = ModuleType(f"docs_example_{len(self._modules)}")
        sys.modules[module.__name__] = module
        self._modules.append(module.__name__)
        exec(compile(text, module.__name__, "exec", dont_inherit=True), module.__dict__)  # noqa: S102
        return module

    def forget(self) -> None:
        for name in self._modules:
            del sys.modules[name]
        for job in list(registry):
            if job.name not in self._known:
                registry.discard(job)


@pytest.fixture
def run_example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Examples]:
    monkeypatch.setattr(retry, "_registered", dict(retry._registered))
    found = Examples()
    yield found
    found.forget()


def work() -> None:
    """Relay and run everything that is due."""
    settings = get_settings()
    relay = Relay(get_driver(), settings)
    Worker(get_driver(), registry, settings).run(until_idle=True, feed=relay.drain)


def a_run(token: CancelToken | None = None, notes: list[Any] | None = None) -> Run[Checkout]:
    told: list[Any] = [] if notes is None else notes
    return Run(
        input=Checkout(1, "docs-1", Decimal("2.50")),
        attempt=1,
        job_id=new_id(),
        run_id=new_id(),
        final_attempt=False,
        signal=token or CancelToken(),
        tenant=None,
        report=told.append,
    )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_python_example_compiles(path: Path) -> None:
    for text in examples(str(path.relative_to(ROOT))):
        compile(text, path.name, "exec", dont_inherit=True)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", ["README.md", "docs/writing-jobs.md"])
def test_every_example_runs(path: str, run_example: Examples) -> None:
    for text in examples(path):
        run_example.run(text)


@pytest.mark.django_db(transaction=True)
def test_the_order_of_the_readme_becomes_a_job_that_runs_once(
    run_example: Examples, capsys: pytest.CaptureFixture[str]
) -> None:
    place = run_example.run(example("README.md", "def place")).place

    order = place("docs-1", Decimal("2.50"))

    assert capsys.readouterr().out.strip() == str(OutboxEntry.objects.get().pk)
    work()
    job = JobRow.objects.get()
    assert (job.state, job.attempt) == (JobState.DONE, 1)
    assert job.related_id == str(order.pk)
    assert Order.objects.get().state == OrderState.PAID
    assert LedgerEntry.objects.get().repeats == 0


@pytest.mark.django_db(transaction=True)
def test_the_job_of_the_readme_runs(run_example: Examples) -> None:
    module = run_example.run(example("README.md", "@job("))
    job: Job[Any, Any] = module.checkout

    queued = job.enqueue(module.Checkout(7, "docs-7", Decimal("1.00")))
    work()

    row = JobRow.objects.get(pk=queued.id)
    assert (row.state, row.result) == ("done", {"reference": "docs-7", "attempt": 1})


@pytest.mark.django_db(transaction=True)
def test_the_first_job_of_the_guide_runs(run_example: Examples) -> None:
    module = run_example.run(example("docs/writing-jobs.md", "def send_invoice"))
    job: Job[Any, Any] = module.send_invoice
    queued = job.enqueue(module.Invoice(3), queue="default")

    work()

    assert JobRow.objects.get(pk=queued.id).result == {"sent": 3}


@pytest.mark.django_db(transaction=True)
def test_the_hook_of_the_guide_is_told(
    run_example: Examples, capsys: pytest.CaptureFixture[str]
) -> None:
    module = run_example.run(example("docs/writing-jobs.md", "on_settled=tell"))
    job: Job[Any, Any] = module.report
    queued = job.enqueue(module.Report(1))
    # A payload that no longer fits ends a job at once.
    JobRow.objects.filter(pk=queued.id).update(input={"report_id": "one"})

    work()

    assert JobRow.objects.get(pk=queued.id).state == JobState.DEAD
    assert capsys.readouterr().out == f"failed for good: {queued.id} X_JOB_INPUT_INVALID\n"


@pytest.mark.django_db(transaction=True)
def test_the_effect_of_the_guide_happens_once(run_example: Examples) -> None:
    charge = run_example.run(example("docs/writing-jobs.md", "def charge")).charge
    run = a_run()

    assert [charge(run), charge(run)] == [True, False]


def test_the_loop_of_the_guide_stops_when_it_is_told(run_example: Examples) -> None:
    poll = run_example.run(example("docs/writing-jobs.md", "def poll")).poll
    token = CancelToken()
    token.abort(Draining("The worker got SIGTERM."))

    with pytest.raises(JobsError, match="X_DRAINING"):
        poll(a_run(token))


def test_the_progress_of_the_guide_is_reported(run_example: Examples) -> None:
    count = run_example.run(example("docs/writing-jobs.md", "run.progress")).count
    notes: list[Any] = []

    count(a_run(notes=notes))

    assert notes[-1] == {"done": 3, "total": 3, "note": "counting"}


def test_the_codes_of_the_guide_are_classified(run_example: Examples) -> None:
    module = run_example.run(example("docs/writing-jobs.md", "register_error_retry({"))

    assert retry.classify(module.CardRefused()) == "terminal"
    busy = module.ProviderBusy(5)
    wait = retry.retry_after(busy)
    assert (retry.classify(busy), wait and wait.total_seconds()) == ("retry-after", 5)


@pytest.mark.django_db(transaction=True)
def test_the_async_caller_of_the_guide_enqueues(run_example: Examples) -> None:
    module = run_example.run(example("docs/writing-jobs.md", "async def"))

    queued = async_to_sync(module.queue_checkout)(Checkout(1, "docs-1", Decimal(1)))

    assert JobRow.objects.get().pk == queued.id


def test_the_settings_of_the_page_are_accepted(run_example: Examples) -> None:
    for text in examples("docs/settings.md"):
        assert conf.read(run_example.run(text).ULTIMATE_JOBS)[1] == []
