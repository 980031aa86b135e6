"""The types are part of the front door: right code passes a strict checker, wrong code does not.

``rejected.py`` marks each wrong line with the error that it must be. The whole-project check fails
when one of them stops being an error; the tests here look at what is said about each.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MARK = re.compile(r"  # type: ignore\[([\w, -]+)\]")
REPORT = re.compile(r"^.*?(\w+)\.py:(\d+): (?:error|note): (.*)$", re.MULTILINE)
CODE = re.compile(r"  \[([\w-]+)\]$")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

Said = dict[str, dict[int, list[str]]]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Said:
    """Check both files as a user of the package would; answer what was said, by file and line."""
    folder = tmp_path_factory.mktemp("typed")
    for name in ("accepted", "rejected"):
        text = (HERE / f"{name}.py").read_text(encoding="utf-8")
        (folder / f"{name}_by_mypy.py").write_text(MARK.sub("", text), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=setup.cfg", "--no-pretty", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stderr
    found: Said = {"accepted_by_mypy": {}, "rejected_by_mypy": {}}
    for name, line, message in REPORT.findall(done.stdout):
        found[name].setdefault(int(line), []).append(message)
    return found


def marked() -> dict[int, set[str]]:
    lines = (HERE / "rejected.py").read_text(encoding="utf-8").splitlines()
    marks = {number: MARK.search(line) for number, line in enumerate(lines, start=1)}
    return {number: set(mark[1].split(", ")) for number, mark in marks.items() if mark}


def line_of(text: str) -> int:
    lines = (HERE / "rejected.py").read_text(encoding="utf-8").splitlines()
    (number,) = [n for n, line in enumerate(lines, start=1) if line.strip().startswith(text)]
    return number


def test_right_code_is_accepted_with_the_types_that_were_promised(said: Said) -> None:
    assert said["accepted_by_mypy"] == {}


def test_wrong_code_is_rejected_line_by_line(said: Said) -> None:
    found = {
        line: {code[1] for message in messages if (code := CODE.search(message))}
        for line, messages in said["rejected_by_mypy"].items()
    }

    assert found == marked()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("job(input=Checkout, tenant=NO_TENANT, retry=Retry())", "idempotency_key: Callable"),
        ("job(input=Checkout, idempotency_key=key, retry=Retry())", "tenant: Callable"),
        ("checkout.enqueue(Mail(", 'expected "Checkout"'),
        ("def of_another_input", ""),
        ("checkout.enqueue(Checkout(1), prioritty=1)", 'did you mean "priority"?'),
        ("checkout(Checkout(1))", "not callable"),
    ],
)
def test_the_checker_names_what_is_missing_or_wrong(said: Said, text: str, named: str) -> None:
    line = line_of(text) - (1 if text.startswith("def ") else 0)

    assert named in "\n".join(said["rejected_by_mypy"][line])


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "ultimate_jobs" / "py.typed").exists()
