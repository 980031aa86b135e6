"""The contract of a driver as tests, for every driver alike.

    from ultimate_jobs.testing.conformance import *

    @pytest.fixture
    def driver(clock):
        return MyDriver(clock=clock)

Each class of tests is about one behaviour, and uses nothing but the contract in ``drivers/base.py``.
The fixture ``driver`` answers a driver that holds no rows and whose statements go by the fixture
``clock``, which stands still until a test moves it. What a driver lacks it names in ``absent``; the
tests of these parts are skipped, and say why.

Reading order: ``scene``, ``enqueueing``, ``staging``, ``claiming``, ``settling``, ``holding``,
``stepping``, ``waiting``, ``capping``, ``limiting``, ``scheduling``, ``forgetting``,
``intervening``, ``looking``, ``waking``, ``bodies``.
"""

from __future__ import annotations

import pkgutil

import pytest

pytest.register_assert_rewrite(
    *(f"{__name__}.{found.name}" for found in pkgutil.iter_modules(__path__))
)

from ultimate_jobs.testing.conformance.bodies import (  # noqa: E402 - rewritten from here on
    TestBodies,
    TestCommitsOfBodies,
    TestDeclaration,
)
from ultimate_jobs.testing.conformance.capping import (  # noqa: E402 - rewritten from here on
    TestAcquiring,
    TestAdmission,
    TestKeepingSlots,
    TestLeavingSlots,
    TestStandingBy,
)
from ultimate_jobs.testing.conformance.claiming import (  # noqa: E402 - rewritten from here on
    TestBurials,
    TestClaim,
    TestHeldJobs,
    TestLapsedClaims,
    TestPausedQueues,
    TestShares,
)
from ultimate_jobs.testing.conformance.enqueueing import (  # noqa: E402 - rewritten from here on
    TestEnqueue,
    TestFinding,
    TestFindingInTransactions,
    TestKeys,
    TestRacingKeys,
)
from ultimate_jobs.testing.conformance.forgetting import (  # noqa: E402 - rewritten from here on
    TestForgettingEvents,
    TestForgettingInTransactions,
    TestForgettingJobs,
    TestForgettingSlots,
    TestForgettingTheRest,
)
from ultimate_jobs.testing.conformance.holding import (  # noqa: E402 - rewritten from here on
    TestLettingGo,
    TestSignsOfLife,
)
from ultimate_jobs.testing.conformance.intervening import (  # noqa: E402 - rewritten from here on
    TestCancelling,
    TestManyJobs,
    TestPauses,
    TestRequeueing,
    TestResolvingSteps,
)
from ultimate_jobs.testing.conformance.limiting import (  # noqa: E402 - rewritten from here on
    TestPurgingBuckets,
    TestTaking,
    TestTakingInTransactions,
)
from ultimate_jobs.testing.conformance.looking import (  # noqa: E402 - rewritten from here on
    TestChoosing,
    TestDepths,
    TestStrandedJobs,
    TestTheFleet,
    TestTheFleetsSchedule,
)
from ultimate_jobs.testing.conformance.scene import (  # noqa: E402 - rewritten from here on
    Clock,
)
from ultimate_jobs.testing.conformance.scheduling import (  # noqa: E402 - rewritten from here on
    TestFires,
    TestLeading,
    TestPausedTasks,
    TestWatermarks,
)
from ultimate_jobs.testing.conformance.settling import (  # noqa: E402 - rewritten from here on
    TestCounters,
    TestFences,
    TestSettle,
    TestStates,
)
from ultimate_jobs.testing.conformance.staging import (  # noqa: E402 - rewritten from here on
    TestOpenTransactions,
    TestRefusedRows,
    TestRelay,
    TestStaging,
)
from ultimate_jobs.testing.conformance.stepping import (  # noqa: E402 - rewritten from here on
    TestSleeps,
    TestSteps,
    TestTransactions,
)
from ultimate_jobs.testing.conformance.waiting import (  # noqa: E402 - rewritten from here on
    TestEvents,
    TestOpenPublishers,
    TestSecondLooks,
    TestWaits,
)
from ultimate_jobs.testing.conformance.waking import (  # noqa: E402 - rewritten from here on
    TestListening,
    TestWord,
    TestWordAndTransactions,
    TestWordOfEvents,
    TestWordOfOperators,
    TestWordOfResults,
)

__all__ = [
    "Clock",
    "TestAcquiring",
    "TestAdmission",
    "TestBodies",
    "TestBurials",
    "TestCancelling",
    "TestChoosing",
    "TestClaim",
    "TestCommitsOfBodies",
    "TestCounters",
    "TestDeclaration",
    "TestDepths",
    "TestEnqueue",
    "TestEvents",
    "TestFences",
    "TestFinding",
    "TestFindingInTransactions",
    "TestFires",
    "TestForgettingEvents",
    "TestForgettingInTransactions",
    "TestForgettingJobs",
    "TestForgettingSlots",
    "TestForgettingTheRest",
    "TestHeldJobs",
    "TestKeepingSlots",
    "TestKeys",
    "TestLapsedClaims",
    "TestLeading",
    "TestLeavingSlots",
    "TestLettingGo",
    "TestListening",
    "TestManyJobs",
    "TestOpenPublishers",
    "TestOpenTransactions",
    "TestPausedQueues",
    "TestPausedTasks",
    "TestPauses",
    "TestPurgingBuckets",
    "TestRacingKeys",
    "TestRefusedRows",
    "TestRelay",
    "TestRequeueing",
    "TestResolvingSteps",
    "TestSecondLooks",
    "TestSettle",
    "TestShares",
    "TestSignsOfLife",
    "TestSleeps",
    "TestStaging",
    "TestStandingBy",
    "TestStates",
    "TestSteps",
    "TestStrandedJobs",
    "TestTaking",
    "TestTakingInTransactions",
    "TestTheFleet",
    "TestTheFleetsSchedule",
    "TestTransactions",
    "TestWaits",
    "TestWatermarks",
    "TestWord",
    "TestWordAndTransactions",
    "TestWordOfEvents",
    "TestWordOfOperators",
    "TestWordOfResults",
    "clock",
]


@pytest.fixture
def clock() -> Clock:
    """Answer a clock that stands still until a test moves it."""
    return Clock()
