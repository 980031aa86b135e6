"""What a child knows of its supervisor: whether it lives, and where to report."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

from ultimate_jobs.process.pulse import Vitals
from ultimate_jobs.supervise.health import REPORT_EVERY


@dataclass(frozen=True, slots=True)
class Parent:
    """The child's end of two pipes.

    Attributes:
        life: can be read once the supervisor is gone: it alone holds the other end.
        reports: where the child's vitals are written, a line each; ``None`` when nobody reads them.
        quiet: whether the child shall claim nothing.

    """

    life: int
    reports: int | None = None
    quiet: bool = False

    @contextmanager
    def followed(self, read: Callable[[], Sequence[Vitals]]) -> Iterator[None]:
        """Report inside the block, and stop this process when the supervisor is gone."""
        ended = threading.Event()
        _start("ultimate_jobs-parent", lambda: _outlive(self.life))
        if self.reports is not None:
            reports = self.reports
            _start("ultimate_jobs-reports", lambda: _report(reports, read, ended))
        try:
            yield
        finally:
            ended.set()


def _start(name: str, work: Callable[[], None]) -> None:
    threading.Thread(target=work, name=name, daemon=True).start()


def _outlive(life: int) -> None:
    """Wait for the supervisor's end, and then do what it would have asked for."""
    with suppress(OSError):
        os.read(life, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def _report(reports: int, read: Callable[[], Sequence[Vitals]], ended: threading.Event) -> None:
    with suppress(OSError):  # nobody reads any more
        while True:
            line = json.dumps([asdict(one) for one in read()]) + "\n"
            os.write(reports, line.encode("ascii"))
            if ended.wait(REPORT_EVERY):
                return


def vitals_of(line: bytes) -> list[Vitals]:
    """Read a report."""
    found: list[dict[str, Any]] = json.loads(line)
    return [Vitals(**one) for one in found]
