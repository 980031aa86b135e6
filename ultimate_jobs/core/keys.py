"""The keys that a job's input decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from urllib.parse import quote

from ultimate_jobs.core.jsonform import is_storable_text
from ultimate_jobs.errors import DeclarationInvalid, InvariantError

I = TypeVar("I")

MAX_KEY_CHARS = 1_000
MAX_CONCURRENCY_KEY_CHARS = 200


def idempotency_key(job: str, compute: Callable[[I], str], value: I, *, prefix: str = "") -> str:
    """Compute the key that no two live jobs of one name and tenant share.

    Raises:
        InvariantError: it is empty, no text, cannot be stored, or, prefix included, longer than
            1,000 characters.

    """
    key: object = compute(value)
    if not isinstance(key, str) or not key or not is_storable_text(key):
        raise InvariantError(f"The idempotency key of '{job}' is empty or not storable text.")
    if len(prefix) + len(key) > MAX_KEY_CHARS:
        raise InvariantError(
            f"The idempotency key of '{job}' is longer than {MAX_KEY_CHARS} characters"
            f"{' with its task and occurrence' if prefix else ''}.",
            fix="Hash long parts of the key, for example with hashlib.sha256(...).hexdigest().",
        )
    return prefix + key


def concurrency_key(job: str, compute: Callable[[I], str], value: I) -> str:
    """Compute the key whose runs share a cap.

    Raises:
        DeclarationInvalid: it is empty, no text, or longer than 200 characters.

    """
    key: object = compute(value)
    storable = isinstance(key, str) and is_storable_text(key)
    if not isinstance(key, str) or not storable or not 1 <= len(key) <= MAX_CONCURRENCY_KEY_CHARS:
        raise DeclarationInvalid(
            f"The concurrency key of '{job}' must be text of 1 to {MAX_CONCURRENCY_KEY_CHARS} "
            "characters."
        )
    return key


def lease_key(job: str, key: str | None = None) -> str:
    """Name the slots of a job's cap, or of one key of it; no two jobs share a name."""
    encoded = quote(job, safe="")
    return f"job:{encoded}" if key is None else f"job-key:{encoded}:{key}"


def tenant(job: str, compute: Callable[[I], str], value: I) -> str:
    """Compute the tenant that an input belongs to.

    Raises:
        InvariantError: it is empty or no text.

    """
    org: object = compute(value)
    if not isinstance(org, str) or not org or not is_storable_text(org):
        raise InvariantError(f"The tenant of '{job}' is empty or not storable text.")
    return org
