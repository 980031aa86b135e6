"""What an operator may see of an input, a result, an output or an error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ultimate_jobs.core.jsonform import JSONValue
from ultimate_jobs.core.masking import CONCEALED, leaves, mask, without
from ultimate_jobs.definitions.job import Job
from ultimate_jobs.definitions.registry import registry

REDACTED = CONCEALED
_SECRET = re.compile(
    r"passw|pwd|passphrase|secret|token|(api|access)[-_ ]?key|authoriz|credential|cookie|session|"
    r"private|card|cvv|cvc|iban|ssn|signature",
    re.IGNORECASE,
)
_URL_CREDENTIALS = re.compile(r"://[^/\s]*@")
_NO_SCHEMA: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Mask:
    """What must not be shown of one job: its sensitive fields, wherever their values appear.

    ``input`` is the input as it may be shown; ``secrets`` are the texts that were taken out of it. Of a
    job that this process does not know, nothing of the input is shown.
    """

    input: JSONValue
    secrets: frozenset[str]
    known: bool

    @classmethod
    def of(cls, name: str, value: JSONValue) -> Mask:
        """Look at an input as the job of this name declares it."""
        handle = registry.get(name)
        if handle is None:
            return cls(REDACTED, frozenset(leaves(value)), known=False)
        masked = mask(value, _schema(handle), _reads_like_a_secret)
        return cls(_without_credentials(masked.value), masked.secrets, known=True)

    def value(self, value: JSONValue) -> JSONValue:
        """Answer a result or an output as it may be shown; nothing of an unknown job's."""
        return self._hidden(redacted(value)) if self.known else None

    def text(self, text: str | None) -> str | None:
        """Answer an error or a note without the secrets of the input."""
        if text is None:
            return None
        return _URL_CREDENTIALS.sub(f"://{REDACTED}@", without(text, self.secrets))

    def note(self, value: JSONValue) -> JSONValue:
        """Answer what a body said about its progress."""
        return self._hidden(_without_credentials(value))

    def _hidden(self, value: JSONValue) -> JSONValue:
        if isinstance(value, dict):
            return {key: self._hidden(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._hidden(item) for item in value]
        return without(value, self.secrets) if isinstance(value, str) else value


def first_words(error: str | None) -> str | None:
    """Answer the type that an error begins with: what may be shown when its input was not read."""
    if error is None:
        return None
    kind, colon, _ = error.partition(":")
    return f"{kind}: {REDACTED}" if colon and re.fullmatch(r"[\w.]+", kind) else REDACTED


def redacted(value: JSONValue) -> JSONValue:
    """Mask every value whose key reads like a secret; URLs lose their credentials."""
    return _without_credentials(mask(value, _NO_SCHEMA, _reads_like_a_secret).value)


def _reads_like_a_secret(key: str) -> bool:
    return _SECRET.search(key) is not None


def _without_credentials(value: JSONValue) -> JSONValue:
    if isinstance(value, dict):
        return {key: _without_credentials(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_credentials(item) for item in value]
    return _URL_CREDENTIALS.sub(f"://{REDACTED}@", value) if isinstance(value, str) else value


@lru_cache(maxsize=1_000)
def _schema(handle: Job[Any, Any]) -> Mapping[str, Any]:
    described: Mapping[str, Any] = handle.describe()["input"]
    return described
