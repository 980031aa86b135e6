"""Whose clock counts: the database's for instants, the process's own for spans, the wall's for nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.test_packages import MODULES, PACKAGE, every_module

WALL = {
    "time.time",
    "time.time_ns",
    "time.localtime",
    "time.gmtime",
    "time.ctime",
    "time.strftime",
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "date.today",
    "timezone.now",
    "timezone.localtime",
    "timezone.localdate",
}
"""What reads the clock on the wall of the machine."""

ALLOWED = {
    "core/ids.py": {
        "time.time_ns"
    },  # ids are in the order of their making, roughly; nothing is due by them
    "process/clock.py": {"datetime.now"},  # a preview of a task, when nobody says an occurrence
    "testing/clock.py": {"datetime.now"},  # what the clock of a test shows at first
    "drivers/memory/store.py": {"datetime.now"},  # for tests; there is no database to ask
    "admin/overview.py": {"timezone.localtime"},  # shows stored instants in the project's zone
    "admin/rows.py": {"timezone.localtime"},
}


def read_by(path: Path) -> Iterator[str]:
    """Name the clocks on the wall that a module reads or hands on, by whatever path it names them."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            name = ".".join(ast.unparse(node).split(".")[-2:])
            if name in WALL:
                yield name
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").rpartition(".")[2]
            yield from (f"{module}.{a.name}" for a in node.names if f"{module}.{a.name}" in WALL)


@every_module
def test_no_module_reads_the_clock_on_the_wall(path: Path) -> None:
    name = path.relative_to(PACKAGE).as_posix()

    assert set(read_by(path)) == ALLOWED.get(name, set())


def test_what_may_read_it_exists() -> None:
    assert set(ALLOWED) <= {path.relative_to(PACKAGE).as_posix() for path in MODULES}


@pytest.mark.parametrize(
    "line",
    [
        "import time\ntime.time()",
        "from time import time",
        "from datetime import datetime\ndatetime.now(UTC)",
        "import datetime\ndatetime.datetime.now()",
        "from django.utils import timezone\nclock = timezone.now",
        "from django.utils.timezone import now",
    ],
)
def test_every_way_to_read_it_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "module.py").write_text(line, encoding="utf-8")

    assert list(read_by(tmp_path / "module.py"))
