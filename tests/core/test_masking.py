"""What a schema declares sensitive is taken out of a value, and out of every text that quotes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
import pytest
from pydantic import BaseModel, Field, SecretStr

from ultimate_jobs.core.jsonform import JSONValue
from ultimate_jobs.core.masking import CONCEALED, SENSITIVE, mask, without
from ultimate_jobs.core.schema import schema_for


@dataclass(frozen=True, slots=True)
class Nested:
    pin: Annotated[str, SENSITIVE]
    plain: int = 0


@dataclass(frozen=True, slots=True)
class Payment:
    number: Annotated[str, SENSITIVE]
    note: str = ""
    nested: Nested | None = None
    many: list[Nested] = field(default_factory=list)
    named: dict[str, Nested] = field(default_factory=dict)
    pair: tuple[str, Annotated[int, SENSITIVE]] = ("", 0)
    whole: Annotated[dict[str, str] | None, SENSITIVE] = None


class Card(msgspec.Struct, tag="card"):
    digits: Annotated[str, SENSITIVE]


class Bill(msgspec.Struct, tag="bill"):
    digits: str


class Choice(msgspec.Struct):
    means: Card | Bill


class Inner(BaseModel):
    pin: SecretStr


class Model(BaseModel):
    number: str = Field(json_schema_extra={"sensitive": True})
    inner: Inner | None = None
    note: str = ""


def masked(declared: object, value: JSONValue) -> tuple[JSONValue, frozenset[str]]:
    found = mask(value, schema_for(declared).json_schema(), lambda key: key == "hidden")
    return found.value, found.secrets


HIDDEN: JSONValue = {"pin": CONCEALED, "plain": 1}
OPEN: JSONValue = {"pin": "s3cret", "plain": 1}

VALUES: list[tuple[Any, JSONValue, JSONValue]] = [
    (Payment, {"number": "s3cret", "note": "seen"}, {"number": CONCEALED, "note": "seen"}),
    (Payment, {"nested": OPEN}, {"nested": HIDDEN}),
    (Payment, {"many": [OPEN, OPEN]}, {"many": [HIDDEN, HIDDEN]}),
    (Payment, {"named": {"a": OPEN}}, {"named": {"a": HIDDEN}}),
    (Payment, {"pair": ["seen", 123456]}, {"pair": ["seen", CONCEALED]}),
    (Payment, {"whole": {"a": "s3cret"}}, {"whole": CONCEALED}),
    (Payment, {"hidden": "s3cret", "more": "seen"}, {"hidden": CONCEALED, "more": "seen"}),
    (
        Choice,
        {"means": {"type": "card", "digits": "s3cret"}},
        {"means": {"type": "card", "digits": CONCEALED}},
    ),
    (Model, {"number": "s3cret", "note": "seen"}, {"number": CONCEALED, "note": "seen"}),
    (Model, {"inner": {"pin": "s3cret"}}, {"inner": {"pin": CONCEALED}}),
    (Payment, ["no", "object"], ["no", "object"]),
    (Payment, None, None),
]


@pytest.mark.parametrize(("declared", "value", "shown"), VALUES)
def test_what_is_declared_sensitive_is_taken_out(
    declared: Any, value: JSONValue, shown: JSONValue
) -> None:
    found, secrets = masked(declared, value)

    assert found == shown
    assert secrets <= {"s3cret", "123456"}
    assert bool(secrets) == (found != value)


def test_a_schema_that_refers_to_itself_ends() -> None:
    endless = {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {}]}}}

    assert mask({"a": [1]}, endless, lambda key: False).value == {"a": [1]}


@pytest.mark.parametrize(
    "schema", [{}, {"$ref": "#/nowhere"}, {"properties": {"a": True}}, {"items": False}], ids=repr
)
def test_a_schema_that_says_little_hides_little(schema: dict[str, Any]) -> None:
    assert mask({"a": ["b"]}, schema, lambda key: False).value == {"a": ["b"]}


@pytest.mark.parametrize(
    ("text", "secrets", "left"),
    [
        ("ValueError: no s3cret", {"s3cret"}, f"ValueError: no {CONCEALED}"),
        ("ValueError: s3cret-s3cret", {"s3cret"}, f"ValueError: {CONCEALED}-{CONCEALED}"),
        (r"KeyError: 'a\nb-secret'", {"a\nb-secret"}, f"KeyError: '{CONCEALED}'"),
        ("code 123 of 41234", {"123"}, f"code {CONCEALED} of 41234"),
        ("longest first: abcdefghij", {"abcdefgh", "abcdefghij"}, f"longest first: {CONCEALED}"),
        ("nothing", set(), "nothing"),
        ("(a.b+c)", {"(a.b+c)"}, CONCEALED),
    ],
)
def test_a_text_that_quotes_a_secret_loses_it(text: str, secrets: set[str], left: str) -> None:
    assert without(text, frozenset(secrets)) == left
