"""How long endings are counted by which span of time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Tier:
    """Buckets of ``minutes``; older than ``keep`` they are folded into the next tier, or deleted."""

    minutes: int
    keep: timedelta


TIERS = (
    Tier(1, timedelta(hours=24)),
    Tier(5, timedelta(days=7)),
    Tier(60, timedelta(days=30)),
)
