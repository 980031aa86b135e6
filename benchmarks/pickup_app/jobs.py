"""The jobs of the benchmarks that run worker processes."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from django.contrib.contenttypes.models import ContentType

from ultimate_jobs import NO_TENANT, Retry, Run, job

_outgoing = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


DECLARED: dict[str, Any] = {
    "input": str,
    "tenant": NO_TENANT,
    "idempotency_key": lambda key: key,
    "retry": Retry(attempts=1),
}


@job(**DECLARED, name="benchmarks.arrive")
def arrive(run: Run[str]) -> None:
    """Send the instant at which the body began, on the clock that all processes share."""
    began = time.monotonic_ns()
    _outgoing.sendto(str(began).encode(), os.environ["PICKUP_SOCKET"])


@job(**DECLARED, name="benchmarks.look")
def look(run: Run[str]) -> None:
    """Look at a row, as most bodies do."""
    ContentType.objects.first()


@job(**DECLARED, name="benchmarks.rest")
def rest(run: Run[str]) -> None:
    """Look at a row, and rest for a while."""
    ContentType.objects.first()
    run.signal.wait(5)
