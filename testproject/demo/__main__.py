"""Run the demo: `python -m testproject.demo`.

DEMO_KEEP=1 leaves it running; DEMO_SEED=n repeats the one that said so; DEMO_SECONDS changes when it gives
up. On a machine too slow for leases of three seconds set VISIBILITY_TIMEOUT.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from types import FrameType

import django

from testproject import postgres


def main() -> None:
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "testproject.settings",
        "DATABASE_NAME": f"ultimate_jobs_demo_{os.getpid()}",
        "DEBUG": "0",
        "SHOP_NUDGE_AFTER": "1s",
        "VISIBILITY_TIMEOUT": os.environ.get("VISIBILITY_TIMEOUT", "3s"),
    }
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    seed = int(os.environ.get("DEMO_SEED") or random.SystemRandom().randrange(1_000_000))
    postgres.serve()
    django.setup()
    # Models can be imported only now.
    from testproject.demo.show import show  # noqa: PLC0415

    sys.exit(show(keep=os.environ.get("DEMO_KEEP", "") not in {"", "0"}, seed=seed))


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
