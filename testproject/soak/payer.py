"""Who answers the runs that ask: each asking is answered by one event, in the transaction that notes it."""

from __future__ import annotations

import threading

from django.db import connection, transaction  # noqa: TID251

from testproject.soak.models import Effect
from testproject.soak.producers import OUTAGE
from ultimate_jobs import publish_event

PAUSE_SECONDS = 0.1
AT_ONCE = 50


class Payer:
    """A thread that answers until it is told to stop."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="payer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping.wait(PAUSE_SECONDS):
                try:
                    while answer_some() == AT_ONCE:
                        pass
                except OUTAGE:
                    connection.close()
        finally:
            connection.close()


def answer_some() -> int:
    """Answer the oldest askings that wait for it; answer how many."""
    with transaction.atomic():
        asked = list(Effect.objects.filter(step="ask", answered=False).order_by("id")[:AT_ONCE])
        for asking in asked:
            publish_event("soak.answer", {"asking": asking.pk}, correlation_key=asking.key)
        Effect.objects.filter(pk__in=[asking.pk for asking in asked]).update(answered=True)
    return len(asked)
