"""Run the demo: `python -m testproject.demo`. DEMO_KEEP=1 leaves it running."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

import django

from testproject import postgres
from testproject.demo.processes import ENDINGS


def main() -> None:
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "testproject.settings",
        "DATABASE_NAME": f"ultimate_jobs_demo_{os.getpid()}",
        "DEBUG": "0",
        "SHOP_CHARGE_SECONDS": "0.05",
        "VISIBILITY_TIMEOUT": "5s",
    }
    for number in ENDINGS:
        signal.signal(number, _leave)
    postgres.serve()
    django.setup()
    # Models can be imported only now.
    from testproject.demo.show import show  # noqa: PLC0415

    sys.exit(show(keep=os.environ.get("DEMO_KEEP", "") not in {"", "0"}))


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
