"""Options of the commands: what a value may be, and where it comes from.

An option of a long-running command can be given three ways, and the first that is there is taken:
the flag, the environment variable, the setting. ``Option`` says all three once; ``effective`` finds
the value in force together with its origin.
"""

from __future__ import annotations

import getpass
import os
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ultimate_jobs.conf import Settings
from ultimate_jobs.core.durations import duration
from ultimate_jobs.core.jsonform import NotStorable, canonical
from ultimate_jobs.core.spec import checked_name
from ultimate_jobs.errors import ConfigInvalid, DeclarationInvalid, DriverUnavailable

MOST_AT_ONCE = 1_000

Reader = Callable[[str], Any]

MOST_PROCESSES = 256

# What a value may be


def positive(text: str) -> int:
    """Read a whole number from 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ArgumentTypeError(f"{text!r} is no whole number from 1")
    return number


def up_to(most: int) -> Callable[[str], int]:
    """Answer a reader of whole numbers from 1 to ``most``."""

    def read(text: str) -> int:
        number = positive(text)
        if number > most:
            raise ArgumentTypeError(f"{text!r} is more than {most:,}")
        return number

    return read


def stored(text: str) -> str:
    """Read text that may stand in a row."""
    try:
        canonical(text)
    except NotStorable:
        raise ArgumentTypeError("this text cannot be stored") from None
    return text


def names(text: str) -> list[str]:
    """Read names separated by commas."""
    found = [name.strip() for name in stored(text).split(",") if name.strip()]
    if not found:
        raise ArgumentTypeError("name at least one, separated by commas")
    return list(dict.fromkeys(found))


def count(text: str) -> int:
    """Read a whole number from 0."""
    return 0 if text == "0" else positive(text)


class Queues(list[str]):
    """Names of queues, in their order.

    Attributes:
        parts: for some of them, how many of the bodies may be theirs.

    """

    def __init__(self, named: Mapping[str, int | None]) -> None:
        super().__init__(named)
        self.parts = {name: part for name, part in named.items() if part is not None}


def queues(text: str) -> Queues:
    """Read names of queues, each alone or with its part of the bodies: ``default,mail=2``."""
    named: dict[str, int | None] = {}
    for entry in names(text):
        name, part = _queue(entry)
        if None not in {part, named.get(name)} and part != named[name]:
            raise ArgumentTypeError(f"{entry!r} gives the queue another part than before")
        named[name] = part or named.get(name)
    return Queues(named)


def _queue(entry: str) -> tuple[str, int | None]:
    name, is_capped, part = (word.strip() for word in entry.partition("="))
    try:
        checked_name("a queue name", name)
        return name, up_to(MOST_AT_ONCE)(part) if is_capped else None
    except DeclarationInvalid as error:
        why = error.cause
    except ArgumentTypeError as error:
        why = str(error)
    raise ArgumentTypeError(f"{entry!r}: {why}" if is_capped else why)


def span(text: str) -> timedelta:
    """Read a duration such as ``30s``."""
    try:
        return duration(float(text) if text.isdecimal() else text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} {error}") from None


def size(text: str) -> int:
    """Read bytes: a whole number, or one with K, M or G."""
    unit = {"K": 1024, "M": 1024**2, "G": 1024**3}.get(text[-1:].upper(), 1)
    try:
        found = int(text if unit == 1 else text[:-1]) * unit
    except ValueError:
        found = 0
    if found < 1:
        raise ArgumentTypeError(f"{text!r} is no size such as 512M or 2G")
    return found


def yes_or_no(text: str) -> bool:
    """Read the value of a switch in the environment."""
    found = _SWITCH.get(text.lower())
    if found is None:
        raise ArgumentTypeError(f"{text!r} is none of {', '.join(_SWITCH)}")
    return found


_SWITCH = {"1": True, "true": True, "yes": True, "on": True} | {
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


# Where a value comes from


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a long-running command.

    Attributes:
        flag: ``--concurrency``; the variable is named after it: ``JOBS_CONCURRENCY``.
        read: turns text into a value, or raises ``ArgumentTypeError``.
        help: what it does, in a few words.
        setting: the field of ``Settings`` that is the default, if one is.
        default: the value when nothing says otherwise and there is no such field.
        aliases: older names of the variable.
        dest: the name of its value; that of the flag unless it says otherwise.

    """

    flag: str
    read: Reader
    help: str
    setting: str | None = None
    default: Any = None
    aliases: Sequence[str] = ()
    dest: str = ""

    @property
    def name(self) -> str:
        """The name of the value."""
        return self.dest or self.flag.removeprefix("--").replace("-", "_")

    @property
    def variables(self) -> Sequence[str]:
        """The environment variables, the one that wins first."""
        own = "JOBS_" + self.flag.removeprefix("--").replace("-", "_").upper()
        return (own, *self.aliases)

    def add_to(self, parser: ArgumentParser) -> None:
        """Add the flag; the help names the other ways to give it."""
        ways = ", ".join([*self.variables, *([self.setting.upper()] if self.setting else [])])
        words: dict[str, Any] = {"help": f"{self.help} ({ways})", "dest": self.name}
        if self.read is not yes_or_no:
            parser.add_argument(self.flag, type=self.read, **words)
        elif self.default is None:
            parser.add_argument(self.flag, action="store_const", const=True, **words)
        else:
            parser.add_argument(self.flag, action=BooleanOptionalAction, default=None, **words)


@dataclass(frozen=True, slots=True)
class Effective:
    """A value in force, and what said so: a flag, a variable, a setting, or ``default``."""

    value: Any
    origin: str


def effective(
    options: Sequence[Option],
    given: Mapping[str, Any],
    settings: Settings,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Effective]:
    """Find the value in force of every option, by the name of the value.

    Args:
        options: what a command takes.
        given: what its flags said; ``None`` is nothing.
        settings: the settings in force.
        environment: that of the process by default. A variable that is empty is not set.

    Raises:
        ConfigInvalid: a variable holds what the option does not take; the message names it.

    """
    environment = os.environ if environment is None else environment
    return {
        option.name: _in_force(option, given.get(option.name), settings, environment)
        for option in options
    }


def _in_force(
    option: Option, said: Any, settings: Settings, environment: Mapping[str, str]
) -> Effective:
    if said is not None:
        return Effective(said, option.flag)
    for variable in option.variables:
        text = environment.get(variable, "")
        if text.strip(" ,"):
            return Effective(_from_environment(option, variable, text.strip()), variable)
    if option.setting is not None:
        return Effective(getattr(settings, option.setting), option.setting.upper())
    return Effective(option.default, "default")


def _from_environment(option: Option, variable: str, text: str) -> Any:
    try:
        return option.read(text)
    except ArgumentTypeError as error:
        raise ConfigInvalid(
            f"{variable}: {str(error).rstrip('.')}.",
            fix=f"Set {variable} to what {option.flag} takes.",
        ) from None


def parts_of_queues(said: Sequence[str], settings: Settings) -> Mapping[str, int]:
    """Answer the parts of the bodies that queues may take: those said, then the setting's."""
    return {**settings.queue_concurrency, **(said.parts if isinstance(said, Queues) else {})}


QUEUES = Option(
    "--queues",
    queues,
    "queues to serve, separated by commas; NAME=N caps the bodies of one",
    setting="queues",
    aliases=("WORKER_QUEUES",),
)
CONCURRENCY = Option(
    "--concurrency", up_to(MOST_AT_ONCE), "bodies to run at once", setting="concurrency"
)
SHUTDOWN_TIMEOUT = Option(
    "--shutdown-timeout",
    span,
    "time that bodies get to stop, as 25s",
    setting="drain_timeout",
)
OF_SETTINGS = (QUEUES, CONCURRENCY, SHUTDOWN_TIMEOUT)
"""The options that stand for a setting."""


def whoami() -> str | None:
    """Answer the login name of whoever runs the command; ``None`` when there is none."""
    try:
        return stored(getpass.getuser())
    except (KeyError, OSError, ImportError, ArgumentTypeError):
        return None


def unreachable() -> DriverUnavailable:
    """Say that the database did not answer."""
    return DriverUnavailable("The database that holds the jobs did not answer.")


def add_json(parser: ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument(
        "--json", action="store_true", help="print exactly one JSON document on standard output"
    )
