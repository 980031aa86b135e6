"""The Python examples of the pages compile, and run against the database."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import StringIO
from logging.config import dictConfigClass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
from asgiref.sync import async_to_sync
from django.db.models.functions import Now
from django.test import RequestFactory

from testproject.shop import partners
from testproject.shop.jobs import Checkout
from testproject.shop.models import LedgerEntry, Order, OrderState
from ultimate_jobs import (
    NO_TENANT,
    CancelToken,
    Enqueued,
    Job,
    JobsError,
    Retry,
    Run,
    conf,
    job,
    publish_event,
)
from ultimate_jobs.conf import get_settings
from ultimate_jobs.core import retry
from ultimate_jobs.core.cron import Schedule
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.states import TERMINAL, WAITING, JobState
from ultimate_jobs.definitions.registry import registry, tasks
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.enqueue.relay import Relay
from ultimate_jobs.errors import Draining
from ultimate_jobs.models import Event, Job as JobRow, JobStep, OutboxEntry
from ultimate_jobs.process.log import event
from ultimate_jobs.worker.loop import Worker

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE = 60.0
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
        self._known_tasks = set(tasks.names())

    def run(self, text: str) -> ModuleType:
        module = ModuleType(f"docs_example_{len(self._modules)}")
        sys.modules[module.__name__] = module
        self._modules.append(module.__name__)
        exec(compile(text, module.__name__, "exec", dont_inherit=True), module.__dict__)  # noqa: S102
        return module

    def forget(self) -> None:
        for name in self._modules:
            del sys.modules[name]
        for declared in list(registry):
            if declared.name not in self._known:
                registry.discard(declared)
        for scheduled in list(tasks):
            if scheduled.name not in self._known_tasks:
                tasks.discard(scheduled)


class Payments(ModuleType):
    """The client of a payment provider, as the examples import it. It notes what it is asked.

    What is `broken` never works, what is `busy` works the next time.
    """

    def __init__(self) -> None:
        super().__init__("payments")
        self.asked: list[str] = []
        self.broken: set[str] = set()
        self.busy: set[str] = set()

    def charge(self, key: str, amount: object) -> dict[str, str]:
        return self._answer("charge", {"id": f"ch-{amount}", "key": key})

    def refund(self, charge: dict[str, str]) -> dict[str, str]:
        return self._answer(f"refund {charge['id']}", {})

    def reserve(self, what: str) -> dict[str, str]:
        return self._answer(what, {"id": what})

    def release(self, reserved: dict[str, str]) -> dict[str, str]:
        return self._answer(f"release {reserved['id']}", {})

    def mail_receipt(self, charge: str) -> None:
        self._answer(f"receipt {charge}", {})

    def look_up(self, reference: str, cancelled: Callable[[], bool]) -> dict[str, str]:
        return self._answer(f"look up {reference}", {"cancelled": str(cancelled())})

    def _answer(self, asked: str, answer: dict[str, str]) -> dict[str, str]:
        self.asked.append(asked)
        if asked in self.broken:
            raise ConnectionError(asked)
        if asked in self.busy:
            self.busy.discard(asked)
            raise TimeoutError(asked)
        return answer


@pytest.fixture
def payments(monkeypatch: pytest.MonkeyPatch) -> Payments:
    provider = Payments()
    monkeypatch.setitem(sys.modules, "payments", provider)
    return provider


@pytest.fixture
def run_example(payments: Payments, monkeypatch: pytest.MonkeyPatch) -> Iterator[Examples]:
    monkeypatch.setattr(retry, "_registered", dict(retry._registered))
    found = Examples()
    yield found
    found.forget()


def work() -> None:
    """Relay and run everything that is due."""
    settings = get_settings()
    relay = Relay(get_driver(), settings)
    Worker(get_driver(), registry, settings).run(until_idle=True, feed=relay.drain)


def make_due() -> None:
    """End every sleep, and let what waits be looked at."""
    JobStep.objects.filter(status="sleeping").update(wake_at=Now())
    JobRow.objects.filter(state__in=WAITING).update(run_at=Now())


def time_is_over() -> None:
    """End every wait without its event."""
    JobStep.objects.filter(status="waiting").update(wake_at=Now())
    make_due()


def finish(queued: Enqueued) -> JobRow:
    """Work, and end every sleep and every backoff, until a job has ended."""
    for _ in range(20):
        work()
        row = JobRow.objects.get(pk=queued.id)
        if row.state in TERMINAL:
            return row
        make_due()
    raise AssertionError("the job does not end")


def as_job(body: Callable[[Run[Checkout]], object], **options: Any) -> Job[Checkout, object]:
    """Declare a job over a body of the page; the examples are forgotten after the test."""
    return job(
        **{
            "input": Checkout,
            "tenant": NO_TENANT,
            "idempotency_key": lambda i: i.reference,
            "retry": Retry(attempts=1),
            "name": f"docs.{body.__name__}",
            **options,
        }
    )(body)


def steps_of(row: JobRow) -> dict[str, str]:
    steps = JobStep.objects.filter(run_id=row.run_id).order_by("position")
    return dict(steps.values_list("name", "status"))


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
        steps=cast("Any", None),  # these bodies have none
        ceilings=cast("Any", None),
    )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_python_example_compiles(path: Path) -> None:
    for text in examples(str(path.relative_to(ROOT))):
        compile(text, path.name, "exec", dont_inherit=True)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "path",
    [
        "README.md",
        "docs/writing-jobs.md",
        "docs/steps.md",
        "docs/limits.md",
        "docs/scheduling.md",
        "docs/howto/effects.md",
    ],
)
def test_every_example_runs(path: str, run_example: Examples) -> None:
    for text in examples(path):
        run_example.run(text)


@pytest.mark.django_db(transaction=True)
@pytest.mark.counts_claims
def test_the_order_of_the_readme_becomes_a_job_that_runs_once(
    run_example: Examples, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partners, "charge", lambda *asked, key: "ch-1")
    monkeypatch.setattr(partners, "ship", lambda *asked, key: "p-1")
    place = run_example.run(example("README.md", "def place")).place

    order = place("docs-1", Decimal("2.50"))

    assert capsys.readouterr().out.strip() == str(OutboxEntry.objects.get().pk)
    work()
    row = JobRow.objects.get()
    assert (row.state, row.claim) == (JobState.SUSPENDED, 1)
    assert row.related_id == str(order.pk)
    assert Order.objects.get().state == OrderState.PAID
    assert LedgerEntry.objects.get().repeats == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("shipped", [True, False], ids=["shipped", "not shipped"])
def test_the_job_of_the_readme_ends_as_it_says(
    run_example: Examples, payments: Payments, *, shipped: bool
) -> None:
    module = run_example.run(example("README.md", "@job("))
    checkout: Job[Any, Any] = module.checkout
    order = Order.objects.create(reference="docs-7", amount=Decimal("1.00"))
    queued = checkout.enqueue(module.Checkout(order.pk, "docs-7", Decimal("1.00")))

    work()
    assert JobRow.objects.get().state == JobState.SUSPENDED
    make_due()
    work()
    if shipped:
        assert publish_event("order.shipped", {"parcel": "p-1"}, correlation_key="docs-7") == 1
    else:
        time_is_over()
    row = finish(queued)

    assert Order.objects.get().state == OrderState.PAID
    if shipped:
        assert (row.state, row.result, payments.asked) == ("done", "p-1", ["charge"])
    else:
        assert (row.state, row.attempt) == ("dead", 3)
        assert payments.asked == ["charge", "refund ch-1.00"]


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


# The page about steps


@pytest.mark.django_db(transaction=True)
def test_the_first_job_of_the_steps_charges_once(run_example: Examples, payments: Payments) -> None:
    module = run_example.run(example("docs/steps.md", "def payout"))
    payments.busy.add("receipt ch-250")

    row = finish(module.payout.enqueue(module.Payout(1, 250)))

    assert (row.state, row.attempt, row.result) == ("done", 2, "ch-250")
    assert payments.asked == ["charge", "receipt ch-250", "receipt ch-250"]


@pytest.mark.django_db(transaction=True)
def test_a_step_answers_what_the_page_says(run_example: Examples) -> None:
    module = run_example.run(example("docs/steps.md", "def quote"))

    row = finish(module.quote.enqueue(module.Ask("pear")))

    assert (row.state, row.result) == ("done", "19.80")


@pytest.mark.django_db(transaction=True)
def test_the_atomic_step_of_the_page_commits_as_one(run_example: Examples) -> None:
    mark_paid = run_example.run(example("docs/steps.md", "def mark_paid")).mark_paid
    order = Order.objects.create(reference="docs-1", amount=Decimal(1))
    handle = as_job(lambda_named(lambda run: run.atomic("paid", lambda: mark_paid("docs-1"))))

    row = finish(handle.enqueue(Checkout(order.pk, "docs-1", Decimal(1))))

    assert (row.state, row.result) == ("done", order.pk)
    assert Order.objects.get().state == OrderState.PAID
    assert Event.objects.get().payload == {"order": order.pk}


@pytest.mark.django_db(transaction=True)
def test_the_loop_of_the_page_is_a_step_for_each(run_example: Examples) -> None:
    handle = as_job(run_example.run(example("docs/steps.md", "def sync_all")).sync_all)

    row = finish(handle.enqueue(Checkout(1, "docs-1", Decimal(1))))

    assert row.result == ["a-1 synced", "a-2 synced", "a-3 synced"]
    assert list(steps_of(row)) == ["accounts", "sync:a-1", "sync:a-2", "sync:a-3"]


@pytest.mark.django_db(transaction=True)
def test_the_retries_of_a_step_use_up_no_attempt(run_example: Examples, payments: Payments) -> None:
    handle = as_job(run_example.run(example("docs/steps.md", "def patient")).patient)
    payments.busy.add("look up docs-1")

    row = finish(handle.enqueue(Checkout(1, "docs-1", Decimal(1))))

    assert (row.state, row.attempt, row.result) == ("done", 1, {"cancelled": "False"})
    assert len(payments.asked) == 2


@pytest.mark.django_db(transaction=True)
def test_the_sleeps_of_the_page_have_the_names_it_says(run_example: Examples) -> None:
    handle = as_job(run_example.run(example("docs/steps.md", "def remind")).remind)

    row = finish(handle.enqueue(Checkout(1, "docs-1", Decimal(1))))

    assert (row.state, row.result) == ("done", "reminded")
    assert list(steps_of(row)) == ["sleep:3d", "grace", "new year"]


@pytest.mark.django_db(transaction=True)
def test_the_event_of_the_page_arrives(run_example: Examples) -> None:
    module = run_example.run(example("docs/steps.md", "def carrier_called"))
    queued = module.follow.enqueue(module.Parcel("docs-1"))
    work()

    assert module.carrier_called("another") == 0
    assert module.carrier_called("docs-1") == 1
    work()

    assert JobRow.objects.get(pk=queued.id).result == "UPS"


@pytest.mark.django_db(transaction=True)
def test_the_saga_of_the_page_is_undone_backwards(
    run_example: Examples, payments: Payments
) -> None:
    module = run_example.run(example("docs/steps.md", "def book_trip"))
    payments.broken.add("hotel")

    row = finish(module.book_trip.enqueue(module.Trip(1, 500)))

    assert payments.asked == [
        "charge",
        "flight",
        "hotel",
        "hotel",
        "release flight",
        "refund ch-500",
    ]
    assert (row.state, row.attempt, row.max_attempts) == ("dead", 2, 4)
    assert "ConnectionError" in str(row.last_error)
    assert list(steps_of(row))[3:] == ["unwinding", "compensate:flight", "compensate:charge"]


@pytest.mark.django_db(transaction=True)
def test_the_budget_of_the_page_is_each_tenants_own(
    run_example: Examples, payments: Payments
) -> None:
    text = example("docs/limits.md", "gateway.take")
    page = run_example.run(text.replace('window="1m"', 'window="100d"'))  # no token meanwhile
    page.gateway.take("acme", cost=100)
    for number in range(3):
        page.charge.enqueue(page.Charge("acme", f"a-{number}"))
    other = page.charge.enqueue(page.Charge("globex", "g-1"))

    work()

    assert JobRow.objects.get(pk=other.id).state == "done"
    waiting = JobRow.objects.filter(state="ready", attempt=0)
    assert waiting.count() == 3
    assert payments.asked == ["charge"]


def test_the_limits_of_the_page_are_accepted(run_example: Examples) -> None:
    page = run_example.run(example("docs/limits.md", "LIMITS"))

    found, mistakes = conf.read(page.ULTIMATE_JOBS)

    assert not mistakes
    assert (found.limits.per_tenant, found.limits.rate_per_tenant) == (5, (100, "1m"))


def test_the_view_of_the_page_says_when_to_come_back(run_example: Examples) -> None:
    text = example("docs/limits.md", "429")
    page = run_example.run(text.replace('window="1m"', 'window="1d"'))  # no token meanwhile
    request = RequestFactory().get("/search")

    answers = [page.search(request) for _ in range(21)]

    assert [answer.status_code for answer in answers] == [200] * 20 + [429]
    assert int(answers[-1]["Retry-After"]) >= 1


@pytest.mark.django_db(transaction=True)
def test_the_work_of_the_page_that_must_land_lands(run_example: Examples) -> None:
    stop_properly = run_example.run(example("docs/steps.md", "def stop_properly")).stop_properly
    order = Order.objects.create(reference="docs-1", amount=Decimal(1))

    def body(run: Run[Checkout]) -> None:
        run.signal.wait(PATIENCE)
        stop_properly(run)

    handle = as_job(body, timeout="50ms")
    row = finish(handle.enqueue(Checkout(order.pk, "docs-1", Decimal(1))))

    assert (row.state, Order.objects.get().state) == ("dead", "paused")
    assert "X_JOB_TIMEOUT" in str(row.last_error)


@pytest.mark.django_db(transaction=True)
def test_the_async_body_of_the_page_runs(run_example: Examples) -> None:
    module = run_example.run(example("docs/steps.md", "async def fetch_feed"))

    row = finish(module.fetch_feed.enqueue(module.Fetch(1)))

    assert (row.state, row.result) == ("done", [{"part": "head"}, {"part": "tail"}])
    assert set(steps_of(row)) == {"head", "tail", "pause"}


def lambda_named(body: Callable[[Run[Checkout]], object]) -> Callable[[Run[Checkout]], object]:
    """Give a body a name, as a declaration wants it."""

    def spelled_out(run: Run[Checkout]) -> object:
        return body(run)

    return spelled_out


def test_the_settings_of_the_page_are_accepted(run_example: Examples) -> None:
    for text in examples("docs/settings.md"):
        assert conf.read(run_example.run(text).ULTIMATE_JOBS)[1] == []


# The page about schedules


def test_the_logging_of_the_page_writes_events_as_json(run_example: Examples) -> None:
    config = run_example.run(example("docs/logging.md", "pythonjsonlogger")).LOGGING
    made = dictConfigClass(config).configure_formatter(dict(config["formatters"]["json"]))
    lines = StringIO()
    handler = logging.StreamHandler(lines)
    handler.setFormatter(made)
    logger = logging.getLogger("ultimate_jobs")
    logger.addHandler(handler)
    try:
        event(logging.WARNING, "jobs.attempt.failed", id=new_id(), attempt=1, error="Declined")
    finally:
        logger.removeHandler(handler)

    written = json.loads(lines.getvalue())
    assert list(written) == ["at", "level", "logger", "message", "event", "fields"]
    assert (written["event"], written["level"]) == ("jobs.attempt.failed", "WARNING")
    assert written["fields"]["attempt"] == 1
    assert set(json.loads(shown_json("docs/logging.md"))) == set(written)


def shown_json(path: str) -> str:
    """Answer the one JSON example of a page."""
    text = (ROOT / path).read_text(encoding="utf-8")
    (found,) = re.findall(r"^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_task_of_the_page_is_built_for_its_occurrence(run_example: Examples) -> None:
    module = run_example.run(example("docs/scheduling.md", "def every_night"))
    occurrence = module.every_night.next_run(datetime(2026, 12, 1, tzinfo=UTC))

    assert module.every_night.entries(occurrence) == [
        (module.report, module.Day(date(2026, 11, 30)))
    ]


def test_the_changes_of_the_page_are_what_schedules_do() -> None:
    text = (ROOT / "docs/scheduling.md").read_text(encoding="utf-8")
    october, march = datetime(2026, 10, 24, 22, tzinfo=UTC), datetime(2027, 3, 27, 23, tzinfo=UTC)
    said = {
        "30 2 * * *": ([150], [120]),
        "0,30 2 * * *": ([120, 150], [120]),
        "0 * * * *": ([60 * hour for hour in range(25)], [60 * hour for hour in range(23)]),
        "*/15 * * * *": ([15 * n for n in range(100)], [15 * n for n in range(92)]),
    }

    for expression, days in said.items():
        assert f"| `{expression}` |" in text
        schedule = Schedule.parse(expression, "Europe/Berlin")
        for midnight, hours, wanted in zip((october, march), (25, 23), days, strict=True):
            found = []
            instant = schedule.next_after(midnight - timedelta(minutes=1))
            while instant < midnight + timedelta(hours=hours):
                found.append((instant - midnight) // timedelta(minutes=1))
                instant = schedule.next_after(instant)
            assert found == wanted, expression
