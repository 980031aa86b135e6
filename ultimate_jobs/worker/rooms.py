"""Room for more bodies: in the process, and in each queue."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rooms:
    """What a worker may still take: ``free`` in all, and for some queues a part of it.

    ``ahead`` runs more may be taken that wait for a body.
    """

    free: int
    of_queue: Mapping[str, int]
    ahead: int = 0

    @classmethod
    def left(
        cls,
        concurrency: int,
        caps: Mapping[str, int],
        queues: Sequence[str],
        hooks: int,
        ahead: int = 0,
    ) -> Rooms:
        """Count what is left beside the runs of ``queues``, one entry a run, and the hooks."""
        left = concurrency - len(queues) - hooks
        busy = Counter(queues) if caps else Counter()
        capped = {queue: max(cap - busy[queue], 0) for queue, cap in caps.items()}
        return cls(max(left, 0), capped, max(ahead + min(left, 0), 0))

    def with_room(self, queues: Sequence[str]) -> list[str]:
        """Answer the queues that may take a run."""
        return [queue for queue in queues if self._of(queue) > 0]

    def shares(self, queues: Sequence[str]) -> list[int]:
        """Divide all room over queues, rounding up; none gets more than its own part."""
        share = math.ceil(self.total / len(queues))
        return [min(share, self._of(queue)) for queue in queues]

    def after(self, taken: Sequence[str]) -> Rooms:
        """Answer what is left when ``taken`` queues have one run more, each as often as named."""
        counts = Counter(taken)
        capped = {queue: left - counts[queue] for queue, left in self.of_queue.items()}
        left = self.free - len(taken)
        return Rooms(max(left, 0), capped, self.ahead + min(left, 0))

    @property
    def total(self) -> int:
        """How many runs may be taken in all."""
        return self.free + self.ahead

    def _of(self, queue: str) -> int:
        return min(self.of_queue.get(queue, self.total), self.total)
