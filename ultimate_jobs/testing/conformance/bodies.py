"""What a driver does for the threads that use it, and what it says of itself."""

from __future__ import annotations

import pytest

from ultimate_jobs.drivers.base import Driver, Part
from ultimate_jobs.errors import DriverLacks
from ultimate_jobs.testing.conformance.scene import PATIENCE, Scene, Suite


class StoppedError(Exception):
    """A body that was told to stop wanted to write."""


class TestBodies(Suite):
    def test_a_body_that_was_told_to_stop_writes_nothing(self, scene: Scene) -> None:
        def body() -> None:
            scene.driver.start_of_body(self.refuse)
            with pytest.raises(StoppedError):
                scene.enqueue("a")
            with pytest.raises(StoppedError):
                scene.stage("b")

        scene.elsewhere(body).result(PATIENCE)

        assert scene.claimed() == []
        assert scene.driver.outbox.pending() == 0

    def test_another_thread_is_not_stopped_with_it(self, scene: Scene) -> None:
        scene.elsewhere(lambda: scene.driver.start_of_body(self.refuse)).result(PATIENCE)

        assert len(scene.enqueue("a")) == 1

    def test_a_thread_is_asked_at_each_write_whether_its_body_may(self, scene: Scene) -> None:
        stopped: list[bool] = []

        def refuse() -> None:
            if stopped:
                raise StoppedError

        def body() -> None:
            scene.driver.start_of_body(refuse)
            scene.enqueue("a")
            stopped.append(True)
            with pytest.raises(StoppedError):
                scene.enqueue("b")

        scene.elsewhere(body).result(PATIENCE)

        assert len(scene.claimed()) == 1

    def test_a_thread_is_left_as_a_new_body_must_find_it(self, scene: Scene) -> None:
        def body() -> list[str]:
            scene.driver.start_of_body(lambda: None)
            scene.enqueue("a")
            return scene.driver.end_of_body()

        assert scene.elsewhere(body).result(PATIENCE) == []
        assert len(scene.claimed()) == 1

    @pytest.mark.parametrize("plan_once", [True, False])
    def test_a_long_life_changes_no_answer(self, scene: Scene, plan_once: bool) -> None:  # noqa: FBT001
        def loop() -> int:
            scene.driver.repeat_statements(plan_once=plan_once)
            found = 0
            for number in range(7):
                scene.driver.between_passes()
                scene.enqueue(str(number))
                found += len(scene.claimed())
            return found

        assert scene.elsewhere(loop).result(PATIENCE) == 7

    def test_a_thread_that_closed_its_connections_may_go_on(self, scene: Scene) -> None:
        def work() -> int:
            scene.enqueue("a")
            scene.driver.close()
            return len(scene.claimed())

        assert scene.elsewhere(work).result(PATIENCE) == 1

    def refuse(self) -> None:
        raise StoppedError


class TestCommitsOfBodies(Suite, needs={Part.TRANSACTIONS}):
    def test_a_body_that_was_told_to_stop_commits_nothing(self, scene: Scene) -> None:
        stopped: list[bool] = []

        def refuse() -> None:
            if stopped:
                raise StoppedError

        def work() -> None:
            scene.stage("a")
            stopped.append(True)

        def body() -> None:
            scene.driver.start_of_body(refuse)
            with pytest.raises(StoppedError):
                scene.driver.steps.transact(work)

        scene.elsewhere(body).result(PATIENCE)

        assert scene.driver.outbox.pending() == 0


class TestDeclaration(Suite):
    def test_a_driver_has_a_name(self, driver: Driver) -> None:
        assert driver.name

    @pytest.mark.parametrize("part", [Part.SLOTS, Part.RATE_LIMITS])
    def test_a_store_that_is_absent_is_none(self, driver: Driver, part: Part) -> None:
        assert (getattr(driver, part.value) is None) is (part in driver.absent)

    @pytest.mark.parametrize(
        "part", [Part.SCHEDULE, Part.EVENTS, Part.WAKE, Part.RETENTION, Part.OPERATOR]
    )
    def test_a_part_that_is_absent_is_refused_by_name(self, driver: Driver, part: Part) -> None:
        if part not in driver.absent:
            assert getattr(driver, part.value)
            return
        with pytest.raises(DriverLacks):
            getattr(driver, part.value)
