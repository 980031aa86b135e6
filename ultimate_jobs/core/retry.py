"""When a failed attempt is tried again, and which errors are not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, get_args

from ultimate_jobs import errors
from ultimate_jobs.core.durations import Duration, duration
from ultimate_jobs.errors import DeclarationInvalid, ErrorRetryInvalid, JobsError, RetryClass

Backoff = Literal["exponential", "linear", "fixed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a job is tried and how long it waits in between.

    Args:
        attempts: starts in all, 1 or more; a crash counts like an exception.
        backoff: ``exponential`` doubles ``delay`` each time, ``linear`` adds it, ``fixed`` keeps it.
        delay: the wait after the first attempt.
        max_delay: no wait is longer.
        jitter: spread each wait over its upper half, so that failures do not return together.
        dead_letter: whether a job that failed for good is kept as ``dead``, for an operator to
            retry; otherwise it ends ``failed``.

    Raises:
        DeclarationInvalid: a value that cannot be meant.

    """

    attempts: int = 3
    backoff: Backoff = "exponential"
    delay: Duration = timedelta(seconds=1)
    max_delay: Duration = timedelta(hours=1)
    jitter: bool = True
    dead_letter: bool = True

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or not 1 <= self.attempts <= 1_000_000:
            raise DeclarationInvalid("retry.attempts must be a whole number from 1 to 1,000,000.")
        if self.backoff not in get_args(Backoff):
            raise DeclarationInvalid("retry.backoff must be exponential, linear or fixed.")
        for field in ("delay", "max_delay"):
            object.__setattr__(self, field, _declared(field, getattr(self, field)))
        for field in ("jitter", "dead_letter"):
            if not isinstance(getattr(self, field), bool):
                raise DeclarationInvalid(f"retry.{field} must be True or False.")

    def wait_after(self, attempt: int, roll: float = 1.0) -> timedelta:
        """Answer the wait after the failed ``attempt``; ``roll`` in 0..1 decides the jitter."""
        capped = self._capped(attempt)
        return min(capped / 2 + capped / 2 * roll, capped) if self.jitter else capped

    @property
    def longest(self) -> timedelta:
        """The longest wait between two attempts."""
        return duration(self.max_delay)

    def schedule(self, attempts: int | None = None) -> list[timedelta]:
        """List every wait of a job that always fails, jitter left out."""
        return [self._capped(n) for n in range(1, attempts or self.attempts)]

    def _capped(self, attempt: int) -> timedelta:
        base, most = duration(self.delay), self.longest
        if self.backoff == "fixed":
            factor = 1
        elif self.backoff == "linear":
            factor = attempt
        else:
            # 2**63 times the shortest delay is past every maximum; a larger power only overflows.
            factor = 2 ** min(attempt - 1, 63)
        return most if factor > most / base else min(base * factor, most)


def _declared(field: str, value: object) -> timedelta:
    try:
        return duration(value)
    except ValueError as error:
        raise DeclarationInvalid(f"retry.{field} {error}.") from None


class Decided(Exception):
    """Raised by a body that decides itself when its ``error`` is tried again.

    ``wait`` counts from the end of the attempt; ``None``: it is not tried again.
    """

    def __init__(self, error: BaseException, wait: timedelta | None) -> None:
        super().__init__()
        self.error = error
        self.wait = wait


_registered: dict[str, RetryClass] = {}


def register_error_retry(classes: Mapping[str, RetryClass]) -> None:
    """Say what an application's own error codes mean for the job that raises them.

    An exception has a code when it has a text attribute ``code``. ``terminal`` ends the job at
    once, ``retry-after`` waits for ``meta["retry_after_seconds"]``.

    Raises:
        ErrorRetryInvalid: a code of this package, an unknown class, or a second, different
            registration. Nothing is registered then.

    """
    for code, kind in classes.items():
        if kind not in get_args(RetryClass):
            raise ErrorRetryInvalid(f"'{code}' is registered with an unknown class.")
        if code in _own_codes():
            raise ErrorRetryInvalid(f"'{code}' is a code of ultimate_jobs.")
        if _registered.get(code, kind) != kind:
            raise ErrorRetryInvalid(f"'{code}' is registered twice, differently.")
    _registered.update(classes)


def code_of(error: BaseException) -> str | None:
    """Answer the code of an error, if it has one."""
    try:
        code = getattr(error, "code", None)
    except Exception:  # noqa: BLE001 - a property of a foreign exception may raise anything
        return None
    return code[:200] if isinstance(code, str) and code else None


def classify(error: BaseException) -> RetryClass | None:
    """Answer what an error means for its job; ``None``: the attempt count decides."""
    if isinstance(error, JobsError):
        return type(error).retry
    code = code_of(error)
    return _registered.get(code) if code else None


def retry_after(error: BaseException) -> timedelta | None:
    """Read ``meta["retry_after_seconds"]``; ``None`` when it is absent or makes no sense."""
    try:
        meta = getattr(error, "meta", None)
        seconds = meta.get("retry_after_seconds") if isinstance(meta, Mapping) else None
        return duration(seconds, zero=True)
    except Exception:  # noqa: BLE001 - a property of a foreign exception may raise anything
        return None


def _own_codes() -> frozenset[str]:
    classes = (getattr(errors, name) for name in dir(errors))
    return frozenset(
        c.code for c in classes if isinstance(c, type) and issubclass(c, errors.JobsError)
    )
