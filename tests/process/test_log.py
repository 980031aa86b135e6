"""Log events: one line for people, name and fields for programs."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

import pytest

from ultimate_jobs.process.log import event

ID = UUID("01890000-0000-7000-8000-000000000001")


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Collect every level."""
    caplog.set_level(logging.DEBUG, logger="ultimate_jobs")
    return caplog


def only(log: pytest.LogCaptureFixture) -> Any:
    """Answer the one record; handlers may put anything on it."""
    (record,) = log.records
    return record


def test_a_line_is_the_name_and_the_fields(log: pytest.LogCaptureFixture) -> None:
    event(logging.WARNING, "jobs.attempt.failed", id=ID, attempt=2)

    record = only(log)
    assert record.name == "ultimate_jobs"
    assert record.levelno == logging.WARNING
    assert record.getMessage() == f"jobs.attempt.failed id={ID} attempt=2"


def test_a_record_carries_the_name_and_the_fields_as_values(log: pytest.LogCaptureFixture) -> None:
    event(logging.INFO, "jobs.worker.started", queues=["a", "b"])

    assert only(log).event == "jobs.worker.started"
    assert only(log).fields == {"queues": ["a", "b"]}


def test_a_field_without_a_value_is_left_out_of_the_line(log: pytest.LogCaptureFixture) -> None:
    event(logging.INFO, "jobs.worker.draining", worker="w", signal=None, count=0)

    assert only(log).getMessage() == "jobs.worker.draining worker=w count=0"


def test_a_line_names_the_place_that_wrote_it(log: pytest.LogCaptureFixture) -> None:
    event(logging.INFO, "jobs.worker.stopped")

    assert only(log).getMessage() == "jobs.worker.stopped"
    assert only(log).funcName == "test_a_line_names_the_place_that_wrote_it"


def test_a_field_may_hold_what_a_format_would_read(log: pytest.LogCaptureFixture) -> None:
    event(logging.INFO, "jobs.worker.started", worker="100%s %(name)s {0}")

    assert only(log).getMessage() == "jobs.worker.started worker=100%s %(name)s {0}"


def test_a_field_may_be_called_like_a_parameter(log: pytest.LogCaptureFixture) -> None:
    event(logging.INFO, "jobs.attempt.failed", name="shop.checkout", level="x", msg="y")

    assert only(log).fields == {"name": "shop.checkout", "level": "x", "msg": "y"}


def test_a_level_nobody_listens_to_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Loud:
        def __str__(self) -> str:
            raise AssertionError("nobody asked for this text")

    caplog.set_level(logging.ERROR, logger="ultimate_jobs")
    event(logging.INFO, "jobs.worker.started", worker=Loud())

    assert not caplog.records
