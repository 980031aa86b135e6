"""The job that is picked up."""

from __future__ import annotations

import os
import socket
import time

from ultimate_jobs import NO_TENANT, Retry, Run, job

_outgoing = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


@job(
    input=str,
    tenant=NO_TENANT,
    idempotency_key=lambda key: key,
    retry=Retry(attempts=1),
    name="benchmarks.arrive",
)
def arrive(run: Run[str]) -> None:
    """Send the instant at which the body began, on the clock that all processes share."""
    began = time.monotonic_ns()
    _outgoing.sendto(str(began).encode(), os.environ["PICKUP_SOCKET"])
