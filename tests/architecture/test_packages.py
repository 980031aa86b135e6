"""The shape of the package: who may say what, and that each part explains itself."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "ultimate_jobs"
MODULES = sorted(PACKAGE.rglob("*.py"))
NESTED = PACKAGE / "drivers" / "postgres" / "nested.py"
"""Stands in for Django's transactions in tests."""
DOOR = PACKAGE / "testing" / "door.py"
"""Drops what waits for the commit of a process that was killed."""
CONFORMANCE = PACKAGE / "testing" / "conformance"
DJANGOS_OWN = {"migrations", "management", "commands"}
PACKAGES = [
    path.parent
    for path in MODULES
    if path.name == "__init__.py" and path.parent.name not in DJANGOS_OWN
]

every_module = pytest.mark.parametrize(
    "path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE))
)


def calls(path: Path) -> Iterator[str]:
    """Name every function and method that a module calls."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Attribute):
                yield function.attr
            elif isinstance(function, ast.Name):
                yield function.id


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_imports_point_the_way_that_the_contracts_say() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-cache",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout


@every_module
def test_statements_run_in_one_module_and_another_listens(path: Path) -> None:
    executes = {"cursor", "execute", "executemany", "raw"} & set(calls(path))

    postgres = PACKAGE / "drivers" / "postgres"
    assert not executes or path in (postgres / "connection.py", postgres / "wake.py", NESTED)


@every_module
def test_nothing_is_left_to_do_after_a_commit(path: Path) -> None:
    assert "on_commit" not in path.read_text(encoding="utf-8") or path in (NESTED, DOOR)


@every_module
def test_nothing_sleeps_where_it_cannot_be_woken(path: Path) -> None:
    assert "time.sleep" not in path.read_text(encoding="utf-8")


@every_module
def test_a_module_says_what_lives_in_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if not text or path.parent.name == "migrations":
        return

    said = ast.get_docstring(ast.parse(text)) or ""
    assert re.match(r"``|[A-Z]", said)
    assert said.splitlines()[0][-1] in ".:"


@every_module
def test_an_assertion_is_not_how_a_rule_is_kept(path: Path) -> None:
    """Python leaves assertions out when it is asked to be fast; pytest puts those of a suite in."""
    if path.parent == CONFORMANCE:
        return

    found = [n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Assert)]

    assert found == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_package_names_only_modules_that_it_has_in_its_reading_order(package: Path) -> None:
    said = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""
    order = re.search(r"Reading order:\s*(.*?)(?:\.\s*$|\.\n\n)", said + "\n", re.DOTALL)
    if order is None:
        return

    for name in re.findall(r"``([\w.]+)``", order[1]):
        assert (package / f"{name}.py").exists() or (package / name).is_dir(), name


def test_every_statement_is_part_of_what_is_installed() -> None:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    patterns = config["options.package_data"]["ultimate_jobs"].split()
    files = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*") if path.suffix == ".sql"]

    assert files
    for path in [*files, Path("py.typed")]:
        assert any(PurePosixPath(path).match(pattern) for pattern in patterns), path
