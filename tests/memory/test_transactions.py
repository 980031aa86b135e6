"""What the memory driver keeps of Django's transactions: all that they keep, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from django.db import OperationalError, connections, transaction  # noqa: TID251 - one to lose
from django.test import TestCase

from tests.builders import (
    PATIENCE,
    Declarations,
    Ping,
    UndoError,
    rolled_back,
    second_connection,
    sql,
)
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.records import Batch, NewJob
from ultimate_jobs.drivers.handler import set_driver
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.errors import InvariantError, OutboxWrongDatabase


@pytest.fixture
def driver(transactional_db: None) -> Iterator[MemoryDriver]:
    """Install a driver that follows the default database."""
    driver = MemoryDriver()
    set_driver(driver)
    yield driver
    set_driver(None)


def a_batch(*keys: str) -> Batch:
    jobs = [NewJob(new_id(), new_id(), key, "{}") for key in keys]
    return Batch(name="tests.ping", queue="default", jobs=jobs, max_attempts=1)


def test_a_block_that_is_undone_takes_only_its_own_with_it(
    driver: MemoryDriver, declare: Declarations
) -> None:
    ping = declare()

    with transaction.atomic():
        ping.enqueue(Ping("before"))
        with rolled_back():
            ping.enqueue(Ping("inside"))
            with transaction.atomic():
                ping.enqueue(Ping("within"))
        with transaction.atomic(savepoint=False):
            ping.enqueue(Ping("after"))

    keys = [row.idempotency_key for row in driver.store.tables.outbox.rows.values()]
    assert sorted(keys) == ["after", "before"]


def test_a_block_that_needs_a_rollback_takes_no_more(
    driver: MemoryDriver, declare: Declarations
) -> None:
    ping = declare()

    with transaction.atomic():
        transaction.set_rollback(True)
        with pytest.raises(transaction.TransactionManagementError):
            ping.enqueue(Ping("a"))

    assert driver.outbox.pending() == 0


def test_a_transaction_by_hand_is_one_too(driver: MemoryDriver, declare: Declarations) -> None:
    ping = declare()
    transaction.set_autocommit(False)
    try:
        ping.enqueue(Ping("undone"))
        transaction.rollback()
        ping.enqueue(Ping("kept"))
        transaction.commit()
    finally:
        transaction.set_autocommit(True)

    keys = [row.idempotency_key for row in driver.store.tables.outbox.rows.values()]
    assert keys == ["kept"]


def test_a_connection_that_is_closed_takes_its_transaction_with_it(
    driver: MemoryDriver, declare: Declarations
) -> None:
    ping = declare()

    def lost() -> None:
        transaction.set_autocommit(False)
        ping.enqueue(Ping("a"))
        connections["default"].close()

    second_connection(lost).result(PATIENCE)

    assert driver.outbox.pending() == 0
    assert not ping.enqueue(Ping("a")).deduped


def test_what_a_body_left_open_is_undone(driver: MemoryDriver, declare: Declarations) -> None:
    ping = declare()

    def body() -> list[str]:
        transaction.set_autocommit(False)
        sql("SELECT 1")
        ping.enqueue(Ping("a"))
        return driver.end_of_body()

    assert second_connection(body).result(PATIENCE) == ["default"]
    assert driver.outbox.pending() == 0
    assert not ping.enqueue(Ping("a")).deduped


def test_two_that_wait_for_each_other_are_told(driver: MemoryDriver) -> None:
    with transaction.atomic():
        driver.outbox.stage(a_batch("a"))

        def other() -> None:
            with transaction.atomic():
                driver.outbox.stage(a_batch("b"))
                driver.outbox.stage(a_batch("a"))

        waits = second_connection(other)
        while not any(one.waits_for for one in driver.store.open):
            assert not waits.done()
        with pytest.raises(OperationalError, match="deadlock"):
            driver.outbox.stage(a_batch("b"))

    waits.result(PATIENCE)
    assert driver.outbox.pending() == 2


def test_a_thread_that_would_wait_for_its_own_transaction_is_told(driver: MemoryDriver) -> None:
    with transaction.atomic():
        driver.queue.enqueue(a_batch("a"))
        with pytest.raises(OperationalError, match="deadlock"):
            driver.queue.enqueue_apart(a_batch("a"))

    assert len(driver.store.tables.jobs.rows) == 1


def test_drivers_of_one_database_keep_their_rows_to_themselves(driver: MemoryDriver) -> None:
    other = MemoryDriver()

    with transaction.atomic():
        driver.outbox.stage(a_batch("a"))
        other.outbox.stage(a_batch("a", "b"))

    assert (driver.outbox.pending(), other.outbox.pending()) == (1, 2)


def test_a_driver_that_follows_nobody_refuses_what_it_could_not_keep(
    transactional_db: None, declare: Declarations
) -> None:
    ping = declare()
    set_driver(MemoryDriver(None))
    try:
        with pytest.raises(OutboxWrongDatabase), transaction.atomic():
            ping.enqueue(Ping("a"))
    finally:
        set_driver(None)


def test_only_a_driver_that_follows_nobody_opens_transactions(driver: MemoryDriver) -> None:
    with pytest.raises(InvariantError):
        driver.atomic()


def test_a_transaction_of_its_own_is_undone_by_an_error() -> None:
    driver = MemoryDriver(None)

    with suppress(UndoError), driver.atomic():
        driver.outbox.stage(a_batch("a"))
        raise UndoError

    assert driver.outbox.pending() == 0


class InsideATestCaseTests(TestCase):
    """A test's own transaction is rolled back at its end, and so is what a test enqueues."""

    driver = MemoryDriver()

    def stage(self) -> None:
        assert self.driver.outbox.pending() == 0
        self.driver.outbox.stage(a_batch("a"))
        assert self.driver.outbox.relay(10).published == 1

    def test_one(self) -> None:
        self.stage()

    def test_nothing_is_left_for_another(self) -> None:
        self.stage()
