"""Inputs by declared type: each kind is parsed, stored and described; what does not fit is not quoted."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NotRequired, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

from ultimate_jobs.core.jsonform import JSONValue
from ultimate_jobs.core.schema import Schema, schema_for
from ultimate_jobs.errors import DeclarationInvalid, InputInvalid

SECRET = "a-secret-value"


@dataclasses.dataclass(frozen=True, slots=True)
class Address:
    city: str


@dataclasses.dataclass(frozen=True, slots=True)
class AsDataclass:
    order_id: int
    price: Decimal
    at: datetime
    token: UUID
    address: Address
    note: str | None = None
    tags: tuple[str, ...] = ()


class AsTypedDict(TypedDict):
    order_id: int
    day: date
    note: NotRequired[str]


class AsStruct(msgspec.Struct, frozen=True, rename="camel"):
    order_id: int
    tags: list[str] = []


class AsModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(populate_by_name=True)

    order_id: int = pydantic.Field(alias="orderId", ge=1)
    price: Decimal = Decimal(0)

    @pydantic.field_validator("price")
    @classmethod
    def _positive(cls, price: Decimal) -> Decimal:
        if price < 0:
            raise ValueError(f"{SECRET}: {price}")
        return price


INPUTS: dict[str, tuple[Any, Any, JSONValue]] = {
    "dataclass": (
        AsDataclass,
        AsDataclass(
            7,
            Decimal("1.10"),
            datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
            UUID(int=1),
            Address("Århus"),
            tags=("a", "b"),
        ),
        {
            "at": "2026-01-02T03:04:05.678901+00:00",
            "note": None,
            "tags": ["a", "b"],
            "price": "1.10",
            "token": "00000000-0000-0000-0000-000000000001",
            "address": {"city": "Århus"},
            "order_id": 7,
        },
    ),
    "typed dict": (
        AsTypedDict,
        {"order_id": 7, "day": date(2026, 1, 2)},
        {"day": "2026-01-02", "order_id": 7},
    ),
    "struct": (AsStruct, AsStruct(7, ["a"]), {"tags": ["a"], "orderId": 7}),
    "model": (
        AsModel,
        AsModel(orderId=7, price=Decimal("1.10")),
        {"price": "1.10", "orderId": 7},
    ),
    "a plain number": (int, 7, 7),
    "a list": (list[Address], [Address("Oslo")], [{"city": "Oslo"}]),
    "a union": (Address | None, None, None),
}


@pytest.mark.parametrize("kind", INPUTS)
def test_an_input_is_stored_and_parsed_back(kind: str) -> None:
    declared, value, stored = INPUTS[kind]
    schema = schema_for(declared)

    assert repr(schema.dump(value)) == repr(stored)
    assert schema.parse(stored) == value
    assert type(schema.parse(stored)) is type(value)


@pytest.mark.parametrize("kind", INPUTS)
def test_an_input_is_described_as_json_schema(kind: str) -> None:
    described = schema_for(INPUTS[kind][0]).json_schema()

    assert {"type", "$ref", "anyOf"} & set(described)


WRONG: dict[str, tuple[Any, JSONValue]] = {
    "a missing field": (AsDataclass, {"order_id": 7}),
    "a field of another type": (AsTypedDict, {"order_id": SECRET, "day": "2026-01-02"}),
    "an unreadable date": (AsTypedDict, {"order_id": 7, "day": SECRET}),
    "a struct of another shape": (AsStruct, [SECRET]),
    "a model with a wrong number": (AsModel, {"orderId": SECRET}),
    "a model whose validator quotes": (AsModel, {"orderId": 7, "price": "-1"}),
    "a model below its bound": (AsModel, {"orderId": 0}),
    "a model of another shape": (AsModel, SECRET),
    "a list of another type": (list[Address], [{"city": 7}]),
    "nothing": (AsDataclass, None),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused_by_its_place_without_its_value(case: str) -> None:
    declared, raw = WRONG[case]

    with pytest.raises(InputInvalid) as caught:
        schema_for(declared).parse(raw)

    assert caught.value.code == "X_JOB_INPUT_INVALID"
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


class Chosen(msgspec.Struct, tag_field="kind", tag="chosen"):
    n: int


class Other(msgspec.Struct, tag_field="kind", tag="other"):
    n: int


@pytest.mark.parametrize("value", [SECRET, f"it's {SECRET}", f"'{SECRET}' and '", f"a'{SECRET}"])
def test_a_refusal_never_quotes_even_a_value_that_holds_quotes(value: str) -> None:
    cases: list[tuple[Any, JSONValue]] = [
        (Chosen | Other, {"kind": value, "n": 1}),
        (dict[int, int], {value: 1}),
        (AsTypedDict, {"order_id": 1, "day": value}),
    ]
    for declared, raw in cases:
        with pytest.raises(InputInvalid) as caught:
            schema_for(declared).parse(raw)
        assert SECRET not in str(caught.value)


def test_a_value_nested_past_all_reason_is_refused() -> None:
    raw: JSONValue = []
    for _ in range(5_000):
        raw = [raw]

    with pytest.raises(InputInvalid):
        schema_for(AsDataclass).parse(raw)


def test_a_model_is_not_mistaken_for_another() -> None:
    class Another(pydantic.BaseModel):
        order_id: int = 7

    with pytest.raises(InputInvalid):
        schema_for(AsModel).dump(Another())


@dataclasses.dataclass
class UnresolvedDataclass:
    field: NoSuchName  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    "declared",
    [UnresolvedDataclass, 7, "NoSuchName", object()],
    ids=["an unresolved field", "a value", "an unresolved name", "an object"],
)
def test_a_type_that_cannot_be_read_is_refused_when_it_is_declared(declared: object) -> None:
    with pytest.raises(DeclarationInvalid) as caught:
        schema_for(declared)

    assert caught.value.code == "X_JOB_DECLARATION_INVALID"
    assert "input=" in caught.value.cause


class Upper:
    """A schema of an application's own."""

    def parse(self, raw: JSONValue) -> str:
        if not isinstance(raw, str):
            raise InputInvalid("The input is no text.")
        return raw.upper()

    def dump(self, value: str) -> JSONValue:
        return value.lower()

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string"}


def test_a_schema_of_the_applications_own_is_used_as_it_is() -> None:
    own = Upper()

    assert isinstance(own, Schema)
    assert schema_for(own) is own
