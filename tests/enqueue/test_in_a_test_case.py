"""Inside a plain ``TestCase`` everything happens in the transaction that the test case rolls back."""

from __future__ import annotations

from django.db import transaction
from django.test import TestCase

from tests.builders import Ping, an_ending, claim, declared, relay_all, rolled_back, settle, staged
from ultimate_jobs.models import Job as JobRow


class InsideATestCaseTests(TestCase):
    def test_a_job_is_staged_published_claimed_and_settled_on_one_connection(self) -> None:
        with declared() as note:
            answer = note.enqueue(Ping("k"))
            assert note.enqueue(Ping("k")).deduped
            assert [row.id for row in staged()] == [answer.id]

            assert relay_all() == 1
            assert note.enqueue(Ping("k")).deduped
            (taken,) = claim(note.name).jobs
            assert settle(an_ending(taken)) == {(answer.id, 1)}

            assert JobRow.objects.get().state == "done"
            assert not note.enqueue(Ping("k")).deduped

    def test_a_rolled_back_block_takes_its_enqueue_with_it(self) -> None:
        with declared() as note:
            with rolled_back():
                note.enqueue(Ping("undone"))
            with transaction.atomic():
                note.enqueue(Ping("kept"))

            assert [row.idempotency_key for row in staged()] == ["kept"]

    def test_nothing_is_left_for_the_next_test(self) -> None:
        assert not staged()
        assert not JobRow.objects.exists()
