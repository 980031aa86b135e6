"""When a schedule fires: cron fields on the wall clock of a time zone.

A fixed time fires at the first instant at which the zone's clock shows it or a later time: once,
when the clock goes back and shows it twice, and right after the gap, when the clock goes forward
over it. Where the hours are all hours or stepped, a schedule keeps its cadence instead: it fires
whenever the clock shows a match, in both passes of a repeated hour, and not for one left out.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final, Self
from zoneinfo import ZoneInfo, available_timezones

from ultimate_jobs.core.cronfields import CronFields, cron_fields
from ultimate_jobs.errors import InvariantError

_TICK: Final = timedelta(microseconds=1)
_SPAN: Final = timedelta(days=2)
"""Longer than a clock was ever moved by (a day), shorter than it ever stood (four days)."""
_NO_ZONES: Final = frozenset({"Factory", "localtime"})
"""Among the zones of a machine, yet no place: an unset clock, and whatever the machine is set to."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A cron expression in a zone. Instants given must be aware; those answered are in UTC."""

    expression: str
    zone: str
    _fields: CronFields = field(repr=False, compare=False)
    _tz: ZoneInfo = field(repr=False, compare=False)

    @classmethod
    def parse(cls, expression: str, zone: str) -> Self:
        """Read an expression of five fields, and the IANA name of a time zone.

        Raises:
            InvariantError: either is ambiguous, unknown or can never be true.

        """
        fields = cron_fields(expression)
        return cls(" ".join(expression.split()), zone, fields, _zone(zone))

    def next_after(self, instant: datetime) -> datetime:
        """Answer the first occurrence later than an instant.

        Raises:
            InvariantError: the instant has no zone, or nothing comes before the year 10000.

        """
        start = _aware(instant)
        try:
            return self._next_fixed(start) if self._fields.fixed_hours else self._next_match(start)
        except OverflowError:
            raise InvariantError("The schedule does not fire before the year 10000.") from None

    def latest_until(self, instant: datetime, after: datetime) -> datetime | None:
        """Answer the last occurrence in ``(after, instant]``, at a cost that is independent of both.

        Raises:
            InvariantError: one of the instants has no zone.

        """
        end, floor = _aware(instant), _aware(after)
        try:
            last = (
                self._last_fixed(end) if self._fields.fixed_hours else self._last_match(end, floor)
            )
        except OverflowError:
            return None
        return last if last is not None and last > floor else None

    # Fixed times: each wall time has one instant, and later wall times never have earlier ones.

    def _next_fixed(self, instant: datetime) -> datetime:
        wall = self._wall(instant)
        while True:  # more than once only where the clock shows again what it has shown
            wall = self._fields.at_or_after(wall + _TICK)
            found = self._first_reaching(wall)
            if found > instant:
                return found

    def _last_fixed(self, instant: datetime) -> datetime:
        wall = self._fields.at_or_before(self._wall(instant))
        while True:
            later = self._fields.at_or_after(wall + _TICK)
            if self._first_reaching(later) > instant:
                return self._first_reaching(wall)
            wall = later

    def _first_reaching(self, wall: datetime) -> datetime:
        """Answer the first instant at which the zone's clock shows a wall time, or a later one."""
        instant = wall.replace(tzinfo=self._tz).astimezone(UTC)
        if self._wall(instant) == wall:
            return instant
        # In a gap: one reading of the wall time lies behind its end, the other one before it.
        before = wall.replace(tzinfo=self._tz, fold=1).astimezone(UTC)
        return self._change(before, instant) or instant

    # A cadence: matches are looked for where the clock stands, stretch by stretch.

    def _next_match(self, instant: datetime) -> datetime:
        start = instant + _TICK
        while True:
            offset = self._offset(start)
            found = _utc(self._fields.at_or_after(_naive(start) + offset) - offset)
            change = self._change(start, start + _SPAN)
            if change is None and found > start + _SPAN:
                start = found - _SPAN  # nothing between: no clock is moved by that much
            elif change is None or found < change:
                return found
            else:
                start = change

    def _last_match(self, instant: datetime, floor: datetime) -> datetime | None:
        while instant > floor:
            offset = self._offset(instant)
            found = _utc(self._fields.at_or_before(_naive(instant) + offset) - offset)
            change = self._change(instant - _SPAN, instant)
            if change is None and found < instant - _SPAN:
                instant = found + _SPAN
            elif change is None or found >= change:
                return found
            else:
                instant = change - _TICK
        return None

    # The zone

    def _wall(self, instant: datetime) -> datetime:
        return instant.astimezone(self._tz).replace(tzinfo=None, fold=0)

    def _offset(self, instant: datetime) -> timedelta:
        return self._wall(instant) - _naive(instant)

    def _change(self, start: datetime, end: datetime) -> datetime | None:
        """Answer the first instant in ``(start, end]`` with the offset of ``end``, if start's differs.

        The two are so near that the offset changes at most once between them.
        """
        offset = self._offset(end)
        if self._offset(start) == offset:
            return None
        seconds = range(int(start.timestamp()), int(end.timestamp()) + 1)
        place = bisect_left(
            seconds, True, key=lambda s: self._offset(datetime.fromtimestamp(s, UTC)) == offset
        )
        return datetime.fromtimestamp(seconds[place], UTC)


def _zone(name: object) -> ZoneInfo:
    if not isinstance(name, str) or name not in _zone_names():
        raise InvariantError(
            "A schedule names no time zone.",
            fix="Pass the exact IANA name of a place, for example tz='Europe/Berlin' or tz='UTC'.",
        )
    return ZoneInfo(name)


@cache
def _zone_names() -> frozenset[str]:
    return frozenset(available_timezones()) - _NO_ZONES


def _aware(instant: object) -> datetime:
    if not isinstance(instant, datetime) or instant.utcoffset() is None:
        raise InvariantError(
            "An instant of a schedule has no time zone.", fix="Pass an aware datetime."
        )
    return instant.astimezone(UTC)


def _naive(instant: datetime) -> datetime:
    return instant.replace(tzinfo=None)


def _utc(wall: datetime) -> datetime:
    return wall.replace(tzinfo=UTC)
