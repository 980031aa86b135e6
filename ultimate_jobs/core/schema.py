"""Inputs by declared type: dataclass, TypedDict, msgspec Struct, pydantic model, or your own."""

from __future__ import annotations

import re
from typing import Any, Generic, Protocol, TypeVar, cast, runtime_checkable

import msgspec

from ultimate_jobs.core.jsonform import JSONValue, NotStorable, canonical
from ultimate_jobs.errors import DeclarationInvalid, InputInvalid

I = TypeVar("I")
_QUOTED = re.compile(r"""(['"]).*\1""", re.DOTALL)


@runtime_checkable
class Schema(Protocol[I]):
    """What a job needs from the type of its input. Implement it for types of your own."""

    def parse(self, raw: JSONValue) -> I:
        """Turn a stored value into an input; raise ``InputInvalid`` without quoting it."""
        ...

    def dump(self, value: I) -> JSONValue:
        """Turn an input into plain values; raise ``InputInvalid`` when it has no stored form."""
        ...

    def json_schema(self) -> dict[str, Any]:
        """Describe the input as JSON Schema."""
        ...


def schema_for(declared: object) -> Schema[Any]:
    """Find the schema of a declared input type.

    Raises:
        DeclarationInvalid: nothing here can read that type.

    """
    if isinstance(declared, Schema) and not isinstance(declared, type):
        return declared
    if isinstance(declared, type) and hasattr(declared, "__pydantic_validator__"):
        return _PydanticSchema(declared)
    try:
        msgspec.json.schema_components([declared])
        msgspec.json.Decoder(cast("type[Any]", declared))
    except (TypeError, NameError, AttributeError) as error:
        raise DeclarationInvalid(
            f"input= cannot be read: {type(error).__name__} while looking at its fields.",
            fix="Declare a dataclass, TypedDict, msgspec.Struct or pydantic model whose "
            "annotations can be resolved when the module is imported.",
        ) from error
    return _MsgspecSchema(declared)


class _MsgspecSchema(Generic[I]):
    def __init__(self, declared: object) -> None:
        self._type = cast("type[I]", declared)

    def parse(self, raw: JSONValue) -> I:
        try:
            return msgspec.convert(raw, self._type)
        except msgspec.ValidationError as error:
            raise InputInvalid(f"The input does not fit: {_unquoted(str(error))}.") from None
        except RecursionError:
            raise InputInvalid("The input is nested too deeply.") from None

    def dump(self, value: I) -> JSONValue:
        return _dumped(value)

    def json_schema(self) -> dict[str, Any]:
        return msgspec.json.schema(self._type)


class _PydanticSchema(Generic[I]):
    def __init__(self, declared: Any) -> None:
        self._type = declared

    def parse(self, raw: JSONValue) -> I:
        try:
            return cast("I", self._type.model_validate(raw))
        except ValueError as error:
            raise InputInvalid(f"The input does not fit: {_locations(error)}.") from None

    def dump(self, value: I) -> JSONValue:
        if not isinstance(value, self._type):
            raise InputInvalid(f"The input is no {self._type.__name__}.")
        return _dumped(self._type.model_dump(value, mode="json", by_alias=True))

    def json_schema(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self._type.model_json_schema())


def _dumped(value: object) -> JSONValue:
    try:
        return canonical(value)
    except NotStorable as error:
        raise InputInvalid(f"The input cannot be stored: {error}") from None


def _unquoted(message: str) -> str:
    return _QUOTED.sub("(value)", message)


def _locations(error: ValueError) -> str:
    found = getattr(error, "errors", None)
    if not callable(found):
        return type(error).__name__
    rows = found(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{row['type']} at {'.'.join(map(str, row['loc'])) or '$'}" for row in rows)
