"""Time-ordered ids (UUID version 7, RFC 9562)."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

_VERSION_AND_VARIANT = (0x7 << 76) | (0b10 << 62)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_counter = itertools.count(int.from_bytes(os.urandom(3), "big"))


def new_id() -> UUID:
    """Make an id that sorts after every id this process made before it.

    48 bits of milliseconds, 26 bits of a counter that runs on through the process's life (so ids
    of one millisecond keep their order), 48 random bits.
    """
    (made,) = new_ids(1)
    return made


def new_ids(count: int) -> Iterator[UUID]:
    """Make many ids, as ``new_id`` does, by one reading of the clock."""
    moment = ((time.time_ns() // 1_000_000) & 0xFFFF_FFFF_FFFF) << 80 | _VERSION_AND_VARIANT
    entropy = os.urandom(6 * count)
    for start in range(0, 6 * count, 6):
        number = next(_counter) & 0x3FF_FFFF
        high, low = number >> 14, number & 0x3FFF
        random = int.from_bytes(entropy[start : start + 6], "big")
        yield UUID(int=moment | (high << 64) | (low << 48) | random)


def instant_of(made: UUID) -> datetime:
    """Answer when an id was made, by the clock of the machine that made it."""
    return _EPOCH + timedelta(milliseconds=made.int >> 80)
