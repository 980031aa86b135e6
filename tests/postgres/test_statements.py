"""The statements as text: one file, one constant, and a schema that they all fit."""

from __future__ import annotations

import re
from importlib.resources import files
from importlib.resources.abc import Traversable

import pytest

from tests.builders import sql as run
from ultimate_jobs.core.selection import UNSUCCESSFUL
from ultimate_jobs.core.states import LIVE, TERMINAL, WAITING
from ultimate_jobs.drivers.postgres import sql

CONSTANTS = {name: text for name, text in vars(sql).items() if name.isupper()}
PARAMETER = re.compile(r"%\((\w+)\)s(::\w+(?:\[\])?)?")
COMMENT = re.compile(r"--[^\n]*")
LIVE_LIST = ", ".join(f"'{state}'" for state in sorted(LIVE))
WAITING_LIST = ", ".join(f"'{state}'" for state in sorted(WAITING))

TERMINAL_LIST = ", ".join(f"'{state}'" for state in sorted(TERMINAL))
UNSUCCESSFUL_LIST = ", ".join(f"'{state}'" for state in sorted(UNSUCCESSFUL))

every_statement = pytest.mark.parametrize("name", sorted(CONSTANTS))


def _files(folder: Traversable) -> list[Traversable]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _files(entry)
        elif entry.name.endswith(".sql"):
            found.append(entry)
    return found


def prepared(statement: str) -> str:
    """Write a statement with the server's own placeholders."""
    numbers: dict[str, int] = {}

    def placeholder(found: re.Match[str]) -> str:
        number = numbers.setdefault(found[1], len(numbers) + 1)
        return f"${number}{found[2] or ''}"

    return PARAMETER.sub(placeholder, statement).replace("%%", "%")


def code(statement: str) -> str:
    """Answer a statement without its comments."""
    return COMMENT.sub("", statement)


def test_every_file_is_one_constant() -> None:
    texts = sorted(entry.read_text(encoding="utf-8") for entry in _files(files(sql)))

    assert texts == sorted(CONSTANTS.values())
    assert len(set(texts)) == len(texts)


@every_statement
def test_a_statement_begins_by_saying_what_it_does(name: str) -> None:
    first = CONSTANTS[name].splitlines()[0]

    assert re.fullmatch(r"-- [A-Z][^%]+", first)


@every_statement
def test_a_statement_is_one_statement(name: str) -> None:
    text = code(CONSTANTS[name]).strip()

    assert text.count(";") == 1
    assert text.endswith(";")


@every_statement
def test_every_parameter_is_named_and_cast(name: str) -> None:
    text = code(CONSTANTS[name])

    assert [found[0] for found in PARAMETER.finditer(text) if found[2] is None] == []
    assert PARAMETER.sub("", text).replace("%%", "").count("%") == 0


@every_statement
def test_every_column_is_named(name: str) -> None:
    text = code(CONSTANTS[name]).replace("count(*)", "").replace("%(shard)s", "")

    assert re.search(r"(?i)(select|returning|,|\.)\s*\*", text) is None


@every_statement
def test_a_statement_reads_the_clock_in_one_way(name: str) -> None:
    text = code(CONSTANTS[name])
    text = text.replace("coalesce(%(now)s::timestamptz, statement_timestamp())", "")

    assert re.search(r"(?i)\bnow\(\)|_timestamp\b|%\(now\)s", text) is None


@every_statement
def test_a_statement_names_no_schema(name: str) -> None:
    assert re.search(r"\bpublic\.|\w+\.x_(jobs|outbox|job_)", code(CONSTANTS[name])) is None


@every_statement
@pytest.mark.django_db(transaction=True)
def test_a_statement_fits_the_migrated_schema(name: str) -> None:
    run(f"PREPARE checked AS {prepared(CONSTANTS[name])}")
    run("DEALLOCATE checked")


@pytest.mark.parametrize(
    "name", [name for name in sorted(CONSTANTS) if "idempotency_key" in CONSTANTS[name]]
)
def test_the_key_of_a_job_is_spelled_in_one_way(name: str) -> None:
    """An index is used only for the expression it was made of."""
    text = code(CONSTANTS[name])
    spelled = re.findall(r"coalesce\((?:\w+\.)?tenant_id|coalesce\(%\(tenant_id\)s", text)
    right = re.findall(r"coalesce\(\w\.tenant_id, ''\)|coalesce\(%\(tenant_id\)s::text, ''\)", text)

    assert len(right) == len(spelled)
    looked_up_by_name = len(re.findall(r"\w\.name = (?:%\(name\)s::text|\w\.name)\n", text))
    looked_up_by_tenant = len(re.findall(r"coalesce\(\w\.tenant_id, ''\) = coalesce\(", text))
    looked_up_by_key = len(
        re.findall(
            r"AND \w\.idempotency_key = (?:\w\.idempotency_key\n|%\(idempotency_key\)s|ANY \(%\(keys\)s)",
            text,
        )
    )
    assert looked_up_by_name == looked_up_by_tenant == looked_up_by_key


@every_statement
def test_states_are_listed_in_the_ways_that_the_indexes_know(name: str) -> None:
    lists = re.findall(r"state IN \(([^)]*)\)", code(CONSTANTS[name]))

    parts = {"'ready', 'suspended'", "'delayed', 'ready'"}
    assert set(lists) <= {LIVE_LIST, WAITING_LIST, TERMINAL_LIST, UNSUCCESSFUL_LIST} | parts


@pytest.mark.django_db(transaction=True)
def test_the_indexes_know_the_key_and_the_states_as_the_statements_spell_them() -> None:
    found = dict(
        run(
            "SELECT indexname, indexdef FROM pg_indexes"
            " WHERE tablename IN ('x_jobs', 'x_outbox') AND schemaname = current_schema()"
        )
    )
    key = "(idempotency_key, name, COALESCE(tenant_id, ''::text))"

    assert key in found["x_jobs_name_tenant_idempotency_live_idx"]
    assert key in found["x_outbox_name_tenant_idempotency_staged_idx"]
    for index, states in (
        ("x_jobs_name_tenant_idempotency_live_idx", LIVE),
        ("x_jobs_claim_idx", WAITING),
        ("x_jobs_standing_by_idx", WAITING),
        ("x_jobs_unsuccessful_idx", UNSUCCESSFUL),
        ("x_jobs_ended_key_idx", TERMINAL),
    ):
        condition = found[index].partition(" WHERE ")[2]
        assert set(re.findall(r"'(\w+)'", condition)) == set(states)
