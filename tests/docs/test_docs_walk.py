"""The walk names files and functions that exist, and the links of all pages resolve."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.apps import apps
from django.db.models import Model

from ultimate_jobs.drivers.postgres import sql
from ultimate_jobs.models import Event, Job, JobStep

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "ultimate_jobs"
STATEMENTS = PACKAGE / "drivers/postgres/sql"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")


def table_after(text: str, heading: str) -> list[list[str]]:
    """Answer the rows of the first table under a heading."""
    part = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines: list[str] = []
    for line in part.splitlines():
        if line.startswith("|"):
            lines.append(line)
        elif lines:
            break
    assert lines, f"there is no table under {heading!r}"
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]


def spans(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def walk() -> list[list[str]]:
    return table_after(ARCHITECTURE, "The walk of a job")


def ini() -> configparser.ConfigParser:
    found = configparser.ConfigParser()
    found.read(ROOT / "setup.cfg", encoding="utf-8")
    return found


# The walk


def test_every_file_and_name_of_the_walk_exists() -> None:
    for row in walk():
        for cell in row[2:4]:
            source = ""
            for name in spans(cell):
                if name.endswith(".py"):
                    source = (PACKAGE / name).read_text(encoding="utf-8")
                    continue
                defined = rf"^\s*(def|class) {name}\b|^{name}\b"
                assert re.search(defined, source, re.MULTILINE), (row[1], name)


def test_every_statement_is_in_the_walk_once() -> None:
    named = [name for row in walk() for name in spans(row[4])]
    files = sorted(str(path.relative_to(STATEMENTS)) for path in STATEMENTS.rglob("*.sql"))

    assert sorted(named) == files
    assert len([name for name in vars(sql) if name.isupper()]) == len(files)


def test_every_module_is_named_in_the_architecture() -> None:
    modules = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py" and "migrations" not in path.parts
    }

    assert modules - set(spans(ARCHITECTURE)) == set()


def test_the_walk_is_numbered_and_each_stage_has_a_section() -> None:
    stages = [re.fullmatch(r"\[(\w[\w ]*)\]\(#([\w-]+)\)", row[1]) for row in walk()]
    headings = re.findall(r"^### (\d+)\. (.+)$", ARCHITECTURE, re.MULTILINE)

    assert [row[0] for row in walk()] == [number for number, _ in headings]
    assert [stage and stage[1] for stage in stages] == [title for _, title in headings]


def test_every_stage_says_what_a_death_there_means() -> None:
    sections = re.split(
        r"^### \d+\. ", ARCHITECTURE.partition("\n## Layers")[0], flags=re.MULTILINE
    )
    *acting, looking = sections[1:]

    assert looking.startswith("Look")
    assert all("*When the process dies here:*" in text for text in acting)


# Layers and tables


def test_the_layers_are_the_contract() -> None:
    contract = ini()["importlinter:contract:layers"]["layers"]
    wanted = [line.split(" | ") for line in contract.split("\n") if line]

    assert [spans(row[0]) for row in table_after(ARCHITECTURE, "Layers")] == wanted


def test_every_import_contract_is_named() -> None:
    prefix = "importlinter:contract:"
    contracts = {name.removeprefix(prefix) for name in ini().sections() if prefix in name}

    assert contracts <= set(spans(ARCHITECTURE))


def test_every_table_is_named() -> None:
    models = apps.get_app_config("ultimate_jobs").get_models()
    wanted = {
        model._meta.db_table: f"{model.__module__.removeprefix('ultimate_jobs.')}.py"
        for model in models
        if not model._meta.proxy
    }
    documented = {
        spans(row[0])[0]: spans(row[1])[0].replace("/", ".")
        for row in table_after(ARCHITECTURE, "Tables")
    }

    assert documented == wanted


def test_every_table_is_written_by_the_statements_named() -> None:
    written = re.compile(r"(?:INSERT INTO|UPDATE|DELETE FROM) (x_\w+)")
    for row in table_after(ARCHITECTURE, "Tables"):
        table = spans(row[0])[0]
        wanted = {
            path.name
            for path in STATEMENTS.rglob("*.sql")
            if table in written.findall(path.read_text(encoding="utf-8"))
        }
        assert set(spans(row[3])) == wanted, table


@pytest.mark.parametrize("model", [Job, JobStep, Event], ids=lambda model: model.__name__)
def test_every_index_is_named(model: type[Model]) -> None:
    indexes = {index.name for index in model._meta.indexes}
    unique = {c.name for c in model._meta.constraints if type(c).__name__ == "UniqueConstraint"}

    assert indexes | unique <= set(spans(ARCHITECTURE))


# Links


def prose(path: Path) -> str:
    return re.sub(
        r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


def links(path: Path) -> Iterator[str]:
    for target in re.findall(r"\[[^\]]+\]\(([^)]+)\)", prose(path)):
        if "://" not in target:
            yield target


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_resolve(path: Path) -> None:
    for target in links(path):
        file, _, anchor = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        assert linked.exists(), target
        if anchor:
            assert anchor in anchors(linked), target


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs/decisions"
    files = sorted(path.name for path in folder.glob("[0-9]*.md"))
    index = re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text("utf-8"))

    assert index == files
    assert len({name[:4] for name in files}) == len(files)


def test_every_decision_has_its_four_parts() -> None:
    for path in (ROOT / "docs/decisions").glob("[0-9]*.md"):
        text = path.read_text(encoding="utf-8")
        assert text.startswith(f"# {path.name[:4]} ")
        parts = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert parts == ["Context", "Decision", "Consequences", "Alternatives"], path.name


# What is said elsewhere


def test_the_supported_versions_are_the_declared_ones() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    said = {row[0]: row[1] for row in table_after(text, "Supported versions")}
    declared = ini()["metadata"]["classifiers"]

    for what, title in (
        ("Programming Language :: Python", "Python"),
        ("Framework :: Django", "Django"),
    ):
        wanted = re.findall(rf"{what} :: (\d+\.\d+)$", declared, re.MULTILINE)
        assert said[title].partition(" (")[0].split(", ") == wanted


def test_every_dependency_has_its_reason() -> None:
    options = ini()
    listed = "\n".join(
        [
            options["options"]["install_requires"],
            options["options.extras_require"]["pydantic"],
            options["options.extras_require"]["docs"],
            options["options.extras_require"]["dev"],
        ]
    )
    wanted = set(re.findall(r"^([A-Za-z][\w.-]*)(?:\[\w+\])?\s*[=>]", listed, re.MULTILINE))
    text = (ROOT / "docs/decisions/0009-dependencies.md").read_text(encoding="utf-8")
    said = {
        re.sub(r"\[.*", "", name)
        for line in text.splitlines()
        if line.startswith("| ")
        for name in line.split("|")[1].strip().split(", ")
        if name
    }

    assert said == wanted


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for path in PAGES:
        named = re.findall(r"`(?:\w+=\S+ )?make (?:\w+=\S+ )?([a-z-]+)`", path.read_text("utf-8"))
        assert set(named) <= targets, path.name
