"""Room for more bodies: in the process, and in each queue."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rooms:
    """What a worker may still take: ``free`` in all, and for some queues a part of it."""

    free: int
    of_queue: Mapping[str, int]

    @classmethod
    def left(
        cls, concurrency: int, caps: Mapping[str, int], queues: Iterable[str], hooks: int
    ) -> Rooms:
        """Count what is left beside the runs of ``queues``, one entry a run, and the hooks."""
        busy = Counter(queues)
        capped = {queue: max(cap - busy[queue], 0) for queue, cap in caps.items()}
        return cls(max(concurrency - busy.total() - hooks, 0), capped)

    def with_room(self, queues: Sequence[str]) -> list[str]:
        """Answer the queues that may take a run."""
        return [queue for queue in queues if self._of(queue) > 0]

    def shares(self, queues: Sequence[str]) -> list[int]:
        """Divide the free room over queues, rounding up; none gets more than its own part."""
        share = math.ceil(self.free / len(queues))
        return [min(share, self._of(queue)) for queue in queues]

    def after(self, taken: Sequence[str]) -> Rooms:
        """Answer what is left when ``taken`` queues have one run more, each as often as named."""
        counts = Counter(taken)
        capped = {queue: left - counts[queue] for queue, left in self.of_queue.items()}
        return Rooms(self.free - len(taken), capped)

    def _of(self, queue: str) -> int:
        return min(self.of_queue.get(queue, self.free), self.free)
