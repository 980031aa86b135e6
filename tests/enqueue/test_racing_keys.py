"""One key, many callers: nobody is answered with a row that does not stay, and nobody gets an error."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from decimal import Decimal
from functools import partial
from hashlib import sha256

import pytest
from django.db import OperationalError, transaction
from psycopg import IsolationLevel

from testproject.shop.models import Order
from tests.builders import (
    PATIENCE,
    Declarations,
    Ping,
    a_job,
    an_ending,
    at_once,
    claim,
    live,
    relay_all,
    rolled_back,
    second_connection,
    settings_of,
    settle,
    staged,
    wait_for_blocked,
)
from ultimate_jobs import Enqueued, Job
from ultimate_jobs.core.states import LIVE, TERMINAL, JobState
from ultimate_jobs.models import Job as JobRow, OutboxEntry

pytestmark = pytest.mark.django_db(transaction=True)

CALLERS = 40
"""Connections of the crowded races: two test processes fit into a server with 100."""

Ways = Callable[[Job[Ping, object], Ping], Enqueued]


def directly(handle: Job[Ping, object], ping: Ping) -> Enqueued:
    return handle.enqueue(ping)


def in_a_transaction(handle: Job[Ping, object], ping: Ping) -> Enqueued:
    with transaction.atomic():
        return handle.enqueue(ping)


def in_a_batch(handle: Job[Ping, object], ping: Ping) -> Enqueued:
    (answer,) = handle.enqueue_many([ping])
    return answer


every_way = pytest.mark.parametrize("second", [directly, in_a_transaction, in_a_batch])


class OpenTransaction:
    """Another connection that has enqueued and not yet decided."""

    def __init__(self, work: Callable[[], Enqueued]) -> None:
        self._staged, self._decided = threading.Event(), threading.Event()
        self._commits = False
        self._running = second_connection(lambda: self._hold(work))
        assert self._staged.wait(PATIENCE)

    def commit(self) -> Enqueued:
        self._commits = True
        return self.roll_back()

    def roll_back(self) -> Enqueued:
        self._decided.set()
        return self._running.result(PATIENCE)

    def _hold(self, work: Callable[[], Enqueued]) -> Enqueued:
        with transaction.atomic():
            answer = work()
            self._staged.set()
            assert self._decided.wait(PATIENCE)
            transaction.set_rollback(not self._commits)
        return answer


@contextmanager
def held_open(work: Callable[[], Enqueued]) -> Iterator[OpenTransaction]:
    """Leave no transaction open, whatever the test finds."""
    other = OpenTransaction(work)
    try:
        yield other
    finally:
        other.roll_back()


# One caller waits for the other


@every_way
def test_an_enqueue_waits_for_a_staged_key_and_takes_it_when_that_is_rolled_back(
    declare: Declarations, second: Ways
) -> None:
    note = declare()

    with held_open(lambda: note.enqueue(Ping("k"))) as first:
        answering = second_connection(lambda: second(note, Ping("k")))
        wait_for_blocked()
        assert not answering.done()
        undone = first.roll_back()
        answer = answering.result(PATIENCE)

    relay_all()
    assert not answer.deduped
    assert answer.id != undone.id
    assert [job.id for job in live(note.name)] == [answer.id]


@every_way
def test_an_enqueue_waits_for_a_staged_key_and_is_answered_with_it_when_that_commits(
    declare: Declarations, second: Ways
) -> None:
    note = declare()

    with held_open(lambda: note.enqueue(Ping("k"))) as first:
        answering = second_connection(lambda: second(note, Ping("k")))
        wait_for_blocked()
        kept = first.commit()
        answer = answering.result(PATIENCE)

    relay_all()
    assert answer.deduped
    assert (answer.id, answer.run_id) == (kept.id, kept.run_id)
    assert [job.id for job in live(note.name)] == [kept.id]


def test_only_the_same_key_is_waited_for(declare: Declarations) -> None:
    note, other = declare(), declare()

    with held_open(lambda: note.enqueue(Ping("k"))):
        assert not second_connection(lambda: note.enqueue(Ping("l"))).result(PATIENCE).deduped
        assert not second_connection(lambda: other.enqueue(Ping("k"))).result(PATIENCE).deduped
        tenant = second_connection(lambda: note.enqueue(Ping("k"), tenant="other"))
        assert not tenant.result(PATIENCE).deduped


def test_a_batch_waits_for_the_one_staged_key_in_it(declare: Declarations) -> None:
    note = declare()
    pings = [Ping("a"), Ping("k"), Ping("z")]

    with held_open(lambda: note.enqueue(Ping("k"))) as first:
        answering = second_connection(lambda: note.enqueue_many(pings))
        wait_for_blocked()
        kept = first.commit()
        answers = answering.result(PATIENCE)

    relay_all()
    assert [answer.deduped for answer in answers] == [False, True, False]
    assert answers[1].id == kept.id
    assert [job.idempotency_key for job in live(note.name)] == ["a", "k", "z"]


@every_way
def test_the_staged_keys_of_a_batch_are_waited_for(declare: Declarations, second: Ways) -> None:
    note = declare()

    with held_open(lambda: note.enqueue_many([Ping("a"), Ping("k"), Ping("z")])[1]) as first:
        answering = second_connection(lambda: second(note, Ping("k")))
        wait_for_blocked()
        kept = first.commit()
        answer = answering.result(PATIENCE)

    relay_all()
    assert (answer.deduped, answer.id) == (True, kept.id)
    assert [job.idempotency_key for job in live(note.name)] == ["a", "k", "z"]


def test_a_savepoint_undone_while_others_wait_lets_the_next_one_in(declare: Declarations) -> None:
    note = declare()

    def undone_inside() -> Enqueued:
        with rolled_back():
            note.enqueue(Ping("k"))
        return note.enqueue(Ping("other"))

    with held_open(undone_inside) as first:
        answer = second_connection(lambda: note.enqueue(Ping("k"))).result(PATIENCE)
        first.commit()

    relay_all()
    assert not answer.deduped
    assert [job.idempotency_key for job in live(note.name)] == ["k", "other"]


@pytest.mark.parametrize("order", ["staged first", "staged last"])
def test_a_transaction_of_very_many_savepoints_is_waited_for_like_any_other(
    declare: Declarations, order: str
) -> None:
    note = declare()

    def many_savepoints() -> None:
        for number in range(250):
            with transaction.atomic():
                Order.objects.create(reference=f"a-{number}", amount=Decimal(1))

    def work() -> Enqueued:
        if order == "staged last":
            many_savepoints()
        answer = note.enqueue(Ping("k"))
        if order == "staged first":
            many_savepoints()
        return answer

    with held_open(work) as first:
        answering = second_connection(lambda: note.enqueue(Ping("k")))
        wait_for_blocked()
        kept = first.commit()
        answer = answering.result(PATIENCE)

    assert (answer.id, answer.deduped) == (kept.id, True)


def test_a_staged_key_is_waited_for_however_many_other_transactions_are_open(
    declare: Declarations,
) -> None:
    note, other = declare(), declare()

    with ExitStack() as open_transactions:
        for number in range(3):
            before = partial(other.enqueue, Ping(f"before-{number}"))
            open_transactions.enter_context(held_open(before))
        first = open_transactions.enter_context(held_open(lambda: note.enqueue(Ping("k"))))
        for number in range(3):
            after = partial(other.enqueue, Ping(f"after-{number}"))
            open_transactions.enter_context(held_open(after))
        answering = second_connection(lambda: note.enqueue(Ping("k")))
        wait_for_blocked()
        kept = first.commit()
        answer = answering.result(PATIENCE)

    assert (answer.id, answer.deduped) == (kept.id, True)


@every_way
@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])
def test_a_project_of_serializable_transactions_gets_the_same_answers(
    declare: Declarations, monkeypatch: pytest.MonkeyPatch, second: Ways, *, commits: bool
) -> None:
    options = {**settings_of().get("OPTIONS", {}), "isolation_level": IsolationLevel.SERIALIZABLE}
    monkeypatch.setitem(settings_of(), "OPTIONS", options)
    note = declare()

    with held_open(lambda: note.enqueue(Ping("k"))) as first:
        answering = second_connection(lambda: second(note, Ping("k")))
        wait_for_blocked()
        kept = first.commit() if commits else first.roll_back()
        if commits and second is in_a_transaction:
            with pytest.raises(OperationalError, match="serialize"):
                answering.result(PATIENCE)
            return
        answer = answering.result(PATIENCE)

    assert answer.deduped is commits
    assert (answer.id == kept.id) is commits


def test_a_direct_enqueue_is_visible_to_the_transaction_that_comes_after_it(
    declare: Declarations,
) -> None:
    note = declare()
    first = note.enqueue(Ping("k"))

    with transaction.atomic():
        answer = note.enqueue(Ping("k"))

    assert (answer.deduped, answer.id) == (True, first.id)
    assert not staged()


def test_a_job_enqueued_directly_while_a_transaction_was_open_answers_for_its_staged_row(
    declare: Declarations,
) -> None:
    """Under a snapshot of its own a transaction cannot see the job; the relay finds it."""
    note = declare()

    with transaction.atomic():
        with transaction.get_connection().cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("SELECT 1")
        direct = second_connection(lambda: note.enqueue(Ping("k"))).result(PATIENCE)
        blind = note.enqueue(Ping("k"))
    relay_all()

    assert not blind.deduped
    assert [job.id for job in live(note.name)] == [direct.id]
    assert OutboxEntry.objects.get(id=blind.id).job_id == direct.id


# What holds a key, and for how long


@pytest.mark.parametrize("state", sorted(LIVE))
def test_a_live_job_holds_its_key(declare: Declarations, state: JobState) -> None:
    note = declare()
    holder = a_job(state, name=note.name, idempotency_key="k")

    for answer in (directly(note, Ping("k")), in_a_transaction(note, Ping("k"))):
        assert (answer.deduped, answer.id, answer.run_id) == (True, holder.id, holder.run_id)


@pytest.mark.parametrize("inside", [False, True], ids=["direct", "in a transaction"])
def test_live_and_staged_jobs_hold_the_keys_of_a_batch(
    declare: Declarations, *, inside: bool
) -> None:
    note = declare()
    live_one = a_job(name=note.name, idempotency_key="live")
    with transaction.atomic():
        staged_one = note.enqueue(Ping("staged"))

    with transaction.atomic() if inside else nullcontext():
        answers = note.enqueue_many([Ping("staged"), Ping("new"), Ping("live")])

    assert [answer.deduped for answer in answers] == [True, False, True]
    assert (answers[0].id, answers[2].id) == (staged_one.id, live_one.id)
    relay_all()
    keys = JobRow.objects.order_by("idempotency_key").values_list("idempotency_key", flat=True)
    assert list(keys) == ["live", "new", "staged"]


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_a_job_that_ended_holds_nothing(declare: Declarations, state: JobState) -> None:
    note = declare()
    a_job(state, name=note.name, idempotency_key="k")

    assert not directly(note, Ping("k")).deduped
    assert directly(note, Ping("k")).deduped


def test_the_first_payload_of_a_key_wins(declare: Declarations) -> None:
    note = declare()
    note.enqueue(Ping("k", load="first"))
    again = note.enqueue(Ping("k", load="second"))

    assert again.deduped
    assert JobRow.objects.get().input["load"] == "first"


def test_a_staged_row_and_a_direct_enqueue_share_the_key(declare: Declarations) -> None:
    note = declare()
    first = in_a_transaction(note, Ping("k"))

    answer = directly(note, Ping("k"))

    assert (answer.deduped, answer.id) == (True, first.id)
    assert [row.id for row in staged()] == [first.id]
    assert not JobRow.objects.exists()


@pytest.mark.parametrize("way", [directly, in_a_transaction])
def test_the_second_of_two_equal_keys_in_a_batch_is_answered_with_the_first(
    declare: Declarations, way: Ways
) -> None:
    note = declare()
    pings = [Ping("a"), Ping("b"), Ping("a"), Ping("c"), Ping("a")]

    if way is directly:
        answers = note.enqueue_many(pings)
    else:
        with transaction.atomic():
            answers = note.enqueue_many(pings)

    assert [answer.deduped for answer in answers] == [False, False, True, False, True]
    assert answers[0].id == answers[2].id == answers[4].id
    assert answers[0].run_id == answers[2].run_id
    assert len({answer.id for answer in answers}) == 3
    relay_all()
    assert [job.idempotency_key for job in live(note.name)] == ["a", "b", "c"]


# Crowds


@pytest.mark.slow
def test_many_callers_of_one_key_get_one_job_and_one_answer(declare: Declarations) -> None:
    note = declare()
    rounds = 20
    gate = threading.Barrier(CALLERS)

    def caller() -> list[Enqueued]:
        answers = []
        for number in range(rounds):
            gate.wait(PATIENCE)
            answers.append(note.enqueue(Ping(f"k-{number:02}")))
        return answers

    answers = at_once(*[caller] * CALLERS)

    jobs = live(note.name)
    assert [job.idempotency_key for job in jobs] == [f"k-{n:02}" for n in range(rounds)]
    for number, job in enumerate(jobs):
        told = [answer[number] for answer in answers]
        assert {(a.id, a.run_id) for a in told} == {(job.id, job.run_id)}
        assert [a.deduped for a in told].count(False) == 1


@pytest.mark.slow
def test_of_many_transactions_with_one_key_all_rolled_back_but_one_that_one_has_the_job(
    declare: Declarations,
) -> None:
    note = declare()

    def undone() -> Enqueued:
        answers: list[Enqueued] = []
        with rolled_back():
            answers.append(note.enqueue(Ping("k")))
        return answers[0]

    answers = at_once(*[undone] * (CALLERS - 1), lambda: in_a_transaction(note, Ping("k")))
    relay_all()

    (job,) = live(note.name)
    kept = answers[-1]
    assert (kept.id, kept.deduped) == (job.id, False)
    assert {a.id for a in answers if a.deduped} <= {job.id}


def test_a_key_that_changes_hands_under_the_relay_is_answered_with_a_job_that_exists(
    declare: Declarations,
) -> None:
    """Staging, publishing, claiming and finishing the same few keys at once."""
    note = declare()
    rounds = 30

    def stager() -> list[Enqueued]:
        return [in_a_transaction(note, Ping(f"k-{n % 3}")) for n in range(rounds)]

    def publisher() -> list[Enqueued]:
        return [directly(note, Ping(f"k-{n % 3}")) for n in range(rounds)]

    def finisher() -> list[Enqueued]:
        for _ in range(rounds):
            relay_all()
            settle(*(an_ending(job) for job in claim(note.name, worker="f").jobs), worker="f")
        return []

    told = [answer for part in at_once(stager, publisher, finisher, stager) for answer in part]
    relay_all()

    jobs = set(JobRow.objects.values_list("id", flat=True))
    receipts = dict(OutboxEntry.objects.values_list("id", "job_id"))
    assert {receipts.get(answer.id, answer.id) for answer in told} <= jobs
    assert {answer.id for answer in told if not answer.deduped} == jobs | set(receipts)


# Lock order


@contextmanager
def key_taken(name: str, key: str) -> Iterator[None]:
    """Hold a key of the queue in a transaction of another connection, undone at the end."""
    taken, may_go = threading.Event(), threading.Event()

    def holder() -> None:
        with rolled_back():
            a_job(name=name, idempotency_key=key)
            taken.set()
            may_go.wait(PATIENCE)

    holding = second_connection(holder)
    assert taken.wait(PATIENCE)
    try:
        yield
    finally:
        may_go.set()
        holding.result(PATIENCE)


def test_a_batch_takes_its_keys_in_the_order_of_the_keys(declare: Declarations) -> None:
    """Waiting for the second key it holds the first of them, not the first of its inputs."""
    note = declare()

    with key_taken(note.name, "m"):
        answering = second_connection(lambda: note.enqueue_many([Ping("z"), Ping("m"), Ping("a")]))
        wait_for_blocked()
        other = second_connection(lambda: note.enqueue(Ping("z"))).result(PATIENCE)

    answers = answering.result(PATIENCE)
    assert not other.deduped
    assert [answer.deduped for answer in answers] == [True, False, False]
    assert answers[0].id == other.id


def test_a_staged_batch_takes_its_keys_in_the_order_of_the_keys(declare: Declarations) -> None:
    note = declare()
    pings = [Ping("z"), Ping("m"), Ping("a")]

    def staging() -> list[Enqueued]:
        with transaction.atomic():
            return note.enqueue_many(pings)

    with held_open(lambda: note.enqueue(Ping("m"))) as first:
        answering = second_connection(staging)
        wait_for_blocked()
        other = second_connection(lambda: in_a_transaction(note, Ping("z"))).result(PATIENCE)
        first.roll_back()
        answers = answering.result(PATIENCE)

    assert not other.deduped
    assert [answer.deduped for answer in answers] == [True, False, False]


def test_a_relay_pass_takes_its_keys_in_the_order_of_the_keys(declare: Declarations) -> None:
    note = declare()
    with transaction.atomic():
        note.enqueue_many([Ping("z"), Ping("m"), Ping("a")])

    with key_taken(note.name, "m"):
        passing = second_connection(relay_all)
        wait_for_blocked()
        other = second_connection(lambda: a_job(name=note.name, idempotency_key="z"))
        holder = other.result(PATIENCE)

    assert passing.result(PATIENCE) == 2
    assert {job.idempotency_key: job.id for job in live(note.name)}["z"] == holder.id


def _orders(count: int) -> list[list[Ping]]:
    pings = [Ping(f"k-{n:03}") for n in range(count)]
    scattered = sorted(pings, key=lambda ping: sha256(ping.key.encode()).digest())
    return [pings, pings[::-1], scattered]


@pytest.mark.slow
@pytest.mark.parametrize("inside", [False, True], ids=["direct", "in transactions"])
def test_batches_of_the_same_keys_in_any_order_never_deadlock(
    declare: Declarations, *, inside: bool
) -> None:
    for _ in range(12):
        note = declare()
        orders = _orders(500)

        def batch(pings: list[Ping], note: Job[Ping, object] = note) -> list[Enqueued]:
            if not inside:
                return note.enqueue_many(pings)
            with transaction.atomic():
                return note.enqueue_many(pings)

        answers = at_once(*(lambda o=order: batch(o) for order in orders))
        relay_all()

        ids = {job.idempotency_key: job.id for job in live(note.name)}
        assert len(ids) == 500
        for pings, told in zip(orders, answers, strict=True):
            assert [answer.id for answer in told] == [ids[ping.key] for ping in pings]
        assert sum(not answer.deduped for told in answers for answer in told) == 500


@pytest.mark.slow
def test_direct_batches_and_staged_ones_with_claims_in_between_never_deadlock(
    declare: Declarations,
) -> None:
    note = declare()
    orders = _orders(200)

    def direct(pings: list[Ping]) -> int:
        return sum(len(note.enqueue_many(pings)) for _ in range(8))

    def staging(pings: list[Ping]) -> int:
        total = 0
        for _ in range(8):
            with transaction.atomic():
                total += len(note.enqueue_many(pings))
        return total

    def worker(name: str) -> int:
        done = 0
        for _ in range(40):
            relay_all(100)
            jobs = claim(note.name, worker=name, room=50).jobs
            done += len(settle(*(an_ending(job) for job in jobs), worker=name))
        return done

    answered = at_once(
        lambda: direct(orders[0]),
        lambda: staging(orders[1]),
        lambda: direct(orders[2]),
        lambda: worker("w-1"),
        lambda: worker("w-2"),
    )

    assert answered[:3] == [1600, 1600, 1600]
    finished = JobRow.objects.filter(state="done").count()
    assert answered[3] + answered[4] == finished


def test_a_deadlock_that_the_callers_transactions_make_is_a_clean_error_that_leaves_nothing(
    declare: Declarations,
) -> None:
    note = declare()
    both_hold_one = threading.Barrier(2)

    def crossing(first: str, second: str) -> str:
        try:
            with transaction.atomic():
                note.enqueue(Ping(first, load=first))
                both_hold_one.wait(PATIENCE)
                note.enqueue(Ping(second, load=first))
        except OperationalError as error:
            return type(error.__cause__).__name__
        return first

    answers = at_once(lambda: crossing("a", "b"), lambda: crossing("b", "a"))

    (winner,) = set(answers) - {"DeadlockDetected"}
    assert [row.input["load"] for row in staged()] == [winner, winner]
