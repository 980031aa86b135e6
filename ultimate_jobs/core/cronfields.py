"""Five cron fields, read strictly, as a calendar on one wall clock without a zone."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from croniter import croniter

from ultimate_jobs.errors import InvariantError

_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)

_WORD = r"([0-9]{1,2}|[A-Za-z]{3})"
_ITEM = re.compile(rf"(?:(\*)|{_WORD}(?:-{_WORD})?)(?:/([0-9]{{1,2}}))?")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST = {month: monthrange(2024, month)[1] for month in range(1, 13)}


@dataclass(frozen=True, slots=True)
class CronFields:
    """The minutes, hours and days at which a wall clock makes a schedule fire.

    A day must have its month, and then match ``days`` and ``weekdays`` (Sunday is 0). A field that
    names every value restricts nothing; when both day fields restrict, either one is enough.
    ``fixed_hours`` says that the hours were listed, neither all of them nor stepped.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    fixed_hours: bool

    def at_or_after(self, wall: datetime) -> datetime:
        """Answer the first match from a wall time on.

        Raises:
            OverflowError: there is none before the year 10000.

        """
        floor = wall.replace(second=0, microsecond=0)
        if floor < wall:
            floor += _MINUTE
        day, found = floor.date(), self._time_from(floor.hour, floor.minute)
        if found is None or not self._is_day(day):
            day, found = self._day_from(day + _DAY), time(self.hours[0], self.minutes[0])
        return datetime.combine(day, found)

    def at_or_before(self, wall: datetime) -> datetime:
        """Answer the last match up to a wall time.

        Raises:
            OverflowError: there is none since the year 1.

        """
        day, found = wall.date(), self._time_to(wall.hour, wall.minute)
        if found is None or not self._is_day(day):
            day, found = self._day_to(day - _DAY), time(self.hours[-1], self.minutes[-1])
        return datetime.combine(day, found)

    def _time_from(self, hour: int, minute: int) -> time | None:
        place = bisect_left(self.minutes, minute)
        if hour in self.hours and place < len(self.minutes):
            return time(hour, self.minutes[place])
        place = bisect_right(self.hours, hour)
        return time(self.hours[place], self.minutes[0]) if place < len(self.hours) else None

    def _time_to(self, hour: int, minute: int) -> time | None:
        place = bisect_right(self.minutes, minute)
        if hour in self.hours and place:
            return time(hour, self.minutes[place - 1])
        place = bisect_left(self.hours, hour)
        return time(self.hours[place - 1], self.minutes[-1]) if place else None

    def _day_from(self, day: date) -> date:
        while not self._is_day(day):
            if day.month in self.months:
                day += _DAY
            else:
                day = day.replace(day=1) + timedelta(days=monthrange(day.year, day.month)[1])
        return day

    def _day_to(self, day: date) -> date:
        while not self._is_day(day):
            day = day - _DAY if day.month in self.months else day.replace(day=1) - _DAY
        return day

    def _is_day(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        in_month = day.day in self.days
        in_week = day.isoweekday() % 7 in self.weekdays
        if len(self.days) < 31 and len(self.weekdays) < 7:
            return in_month or in_week
        return in_month and in_week


@dataclass(frozen=True, slots=True)
class _Field:
    """What a field may say. Only the day of week has a ``most`` beyond its ``last``: 7, Sunday."""

    name: str
    first: int
    last: int
    most: int
    words: tuple[str, ...] = ()


_FIELDS = (
    _Field("minute", 0, 59, 59),
    _Field("hour", 0, 23, 23),
    _Field("day of month", 1, 31, 31),
    _Field("month", 1, 12, 12, _MONTHS),
    _Field("day of week", 0, 6, 7, _WEEKDAYS),
)


def cron_fields(expression: object) -> CronFields:
    """Read an expression of five fields.

    Each is ``*``, ``*/step``, or a list of values, ranges and stepped ranges; months and weekdays
    may be English names of three letters. croniter expands them. It accepts more: seconds, years,
    macros, random and hashed values, ranges that wrap around, steps without a second value; all of
    that is refused first.

    Raises:
        InvariantError: the expression is anything else, or means a date that never comes.

    """
    texts = re.split(r"[ \t]+", expression.strip(" \t")) if isinstance(expression, str) else []
    if len(texts) != len(_FIELDS):
        raise _refusal("it must have five fields")
    plain = " ".join(map(_plain, _FIELDS, texts))
    minutes, hours, days, months, weekdays = map(_values, _FIELDS, croniter.expand(plain)[0])
    if len(weekdays) == 7 and days[0] > max(_LONGEST[month] for month in months):
        raise _refusal("its day of month never comes in its months")
    fixed_hours = len(hours) < 24 and "/" not in texts[1]
    return CronFields(minutes, hours, days, months, weekdays, fixed_hours)


def _values(field: _Field, expanded: Sequence[int | str]) -> tuple[int, ...]:
    if "*" in expanded:
        return tuple(range(field.first, field.last + 1))
    return tuple(sorted({int(value) for value in expanded}))


def _plain(field: _Field, text: str) -> str:
    """Spell a field in the way whose expansion has one reading: numbers, and rising ranges."""
    return ",".join(_plain_item(field, item) for item in text.split(","))


def _plain_item(field: _Field, item: str) -> str:
    match = _ITEM.fullmatch(item)
    if match is None:
        raise _refusal(f"its {field.name} field cannot be read")
    star, start, end, step = match.groups()
    first = field.first if star else _number(field, start)
    last = _end(field, first, end, open_ended=bool(star or step))
    if first > last:
        raise _refusal(f"a range in its {field.name} field runs backwards")
    if step is not None and not 0 < int(step) <= last - first:
        raise _refusal(f"a step in its {field.name} field reaches no second value")
    return str(first) if first == last else f"{first}-{last}/{step or 1}"


def _end(field: _Field, first: int, word: str | None, *, open_ended: bool) -> int:
    """Read the end of a range. A week may end on the Sunday after it began."""
    if word is None:
        return field.last if open_ended else first
    last = _number(field, word)
    return 7 if last == 0 < first and word.lower() == "sun" else last


def _number(field: _Field, word: str) -> int:
    if word.lower() in field.words:
        return field.words.index(word.lower()) + field.first
    if not word.isdigit() or not field.first <= int(word) <= field.most:
        raise _refusal(f"its {field.name} field names a value that does not exist")
    return int(word)


def _refusal(why: str) -> InvariantError:
    return InvariantError(
        f"A cron expression cannot be used: {why}.",
        fix="Write five fields: minute hour day-of-month month day-of-week, as in '30 2 * * mon-fri'.",
    )
