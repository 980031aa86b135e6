"""The tutorial, typed word by word into a shell, in an empty folder, with what is published."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.builders import settings_of
from tests.packaging.conftest import outside

pytestmark = [
    pytest.mark.slow,
    pytest.mark.scenario,
    pytest.mark.timeout(600),
    pytest.mark.django_db(transaction=True),
]

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "tutorial.md"
BLOCK = re.compile(
    r"^(?:`(?P<path>[\w/]+\.py)`(?P<place>[^\n]*):\n\n)?"
    r"^```(?P<kind>console|python)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
DONE_BY_THE_TEST = ("python -m venv", "source ", "pip install ", "createdb ")
"""How the commands begin that make what the test has made: an environment and a database."""


NOTICE = re.compile(r"/bin/bash: line \d+: +\d+ Killed ")
"""What bash says of a killed process, whenever it comes to notice."""


@dataclass(frozen=True, slots=True)
class Command:
    """A line that is typed, and the lines that the page says it answers."""

    line: str
    answers: list[str]


@dataclass(frozen=True, slots=True)
class File:
    """What the page has written into a file: all of it, its end, or what begins at a line."""

    path: str
    place: str
    text: str

    def write(self, folder: Path) -> None:
        path = folder / self.path
        if self.place == "":
            path.write_text(self.text, encoding="utf-8")
            return
        before = path.read_text(encoding="utf-8")
        if self.place != ", at the end":
            found = re.fullmatch(r", from `(.+)` on", self.place)
            assert found is not None, self.place
            before = before[: before.index(found[1])]
        path.write_text(before + self.text, encoding="utf-8")


def commands_of(text: str) -> Iterator[Command]:
    for said in text.removeprefix("$ ").split("\n$ "):
        line, *answers = said.splitlines()
        yield Command(line, answers)


def doings() -> list[Command | File]:
    found: list[Command | File] = []
    for block in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        if block["kind"] == "console":
            found.extend(commands_of(block["text"]))
        else:
            found.append(File(block["path"], block["place"], block["text"]))
    return found


class Shell:
    """One bash, as the reader has open, and whatever it starts."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._log = folder.parent / "answers"
        self._log.mkdir()
        self._typed = 0
        self._process = subprocess.Popen(
            ["/bin/bash"],
            cwd=folder,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            start_new_session=True,
        )

    def type(self, line: str) -> tuple[int, str]:
        """Answer the exit status of a line, and what it and its errors said."""
        typed, said = self._process.stdin, self._process.stdout
        assert typed is not None
        assert said is not None
        self._typed += 1
        log = self._log / f"{self._typed}.txt"
        typed.write(f"{{ {line}\n}} >{log} 2>&1 </dev/null; echo $?\n")
        typed.flush()
        status = int(said.readline())
        lines = log.read_text(encoding="utf-8").splitlines()
        return status, "\n".join(line for line in lines if not NOTICE.match(line))

    def end(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


@pytest.fixture
def shell(tmp_path: Path, installed: Path, database: str) -> Iterator[Shell]:
    """Answer a shell in which the package is installed and the database is the one that is asked for."""
    ours = settings_of()
    env = outside(installed)
    env |= {
        "PATH": f"{Path(sys.executable).parent}:{env['PATH']}",
        "PGHOST": str(ours["HOST"]),
        "PGPORT": str(ours["PORT"]),
        "PGUSER": str(ours["USER"]),
        "PGPASSWORD": str(ours["PASSWORD"]),
        "COLUMNS": "200",
    }
    folder = tmp_path / "tutorial"
    folder.mkdir()
    opened = Shell(folder, {name: value for name, value in env.items() if value})
    yield opened
    opened.end()


def matches(said: str, answers: list[str]) -> bool:
    """Tell whether each answer is a line of what was said, in their order; `…` is anything."""
    lines = iter(said.splitlines())
    return all(
        any(fnmatchcase(line, answer.replace("[", "[[]").replace("…", "*")) for line in lines)
        for answer in answers
    )


def test_the_tutorial_does_what_it_says(tmp_path: Path, shell: Shell, database: str) -> None:
    folder = tmp_path / "tutorial"
    for doing in doings():
        if isinstance(doing, File):
            text = doing.text.replace('"NAME": "tutorial"', f'"NAME": "{database}"')
            File(doing.path, doing.place, text).write(folder)
        elif not doing.line.startswith(DONE_BY_THE_TEST):
            status, said = shell.type(doing.line)
            assert status == 0, f"{doing.line}\n{said}"
            assert matches(said, doing.answers), f"{doing.line}\n{said}"
            if doing.answers and not any("…" in answer for answer in doing.answers):
                assert said.splitlines() == doing.answers
