"""What an operator may see of an input or a result."""

from __future__ import annotations

import re

from ultimate_jobs.core.jsonform import JSONValue

REDACTED = "[redacted]"
_SECRET = re.compile(
    r"passw|pwd|passphrase|secret|token|(api|access)[-_ ]?key|authoriz|credential|cookie|session|"
    r"private|card|cvv|cvc|iban|ssn|signature",
    re.IGNORECASE,
)


def redacted(value: JSONValue) -> JSONValue:
    """Mask every value whose key reads like a secret; URLs lose their credentials."""
    if isinstance(value, dict):
        return {
            key: REDACTED if _SECRET.search(key) else redacted(item) for key, item in value.items()
        }
    if isinstance(value, list):
        return [redacted(item) for item in value]
    if isinstance(value, str):
        return _URL_CREDENTIALS.sub(f"://{REDACTED}@", value)
    return value


_URL_CREDENTIALS = re.compile(r"://[^/\s]*@")


def operator_input(value: JSONValue, *, known: bool) -> JSONValue:
    """Answer an input as an operator may see it: nothing of it when its job is unknown here."""
    return redacted(value) if known else REDACTED
