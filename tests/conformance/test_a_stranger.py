"""Somebody who has a driver, the page about drivers, and nothing else of ours."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ultimate_jobs.drivers.base import Part
from ultimate_jobs.testing import conformance

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = (ROOT / "docs" / "drivers.md").read_text(encoding="utf-8")
LACKS = re.compile(
    r"^SKIPPED \[(\d+)\] .*: the driver '(\w+)' declares that it lacks: (.*)$", re.MULTILINE
)


def example(holds: str) -> str:
    """Answer the one example of the page that holds these words."""
    examples = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (found,) = (text for text in examples if holds in text)
    return str(found)


def prove(folder: Path) -> str:
    """Run the tests in a folder outside of this project; answer what pytest said."""
    paths = os.pathsep.join([str(folder), str(ROOT)])
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-rs",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
        ],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": paths, "DJANGO_SETTINGS_MODULE": "testproject.settings"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_driver_is_proved_as_the_page_says_on_all_that_it_does_not_lack(tmp_path: Path) -> None:
    (tmp_path / "small_driver.py").write_text(example("class SmallDriver"), encoding="utf-8")
    (tmp_path / "test_small_driver.py").write_text(example("def driver(clock)"), encoding="utf-8")
    shutil.copy(HERE / "bare_driver.py", tmp_path / "test_bare_driver.py")

    said = prove(tmp_path)

    passed, skipped = map(int, re.findall(r"(\d+) (?:passed|skipped)", said))
    reasons = LACKS.findall(said)
    lacking = {
        name: {part for _, who, parts in reasons if who == name for part in parts.split(", ")}
        for name in ("small", "bare")
    }
    assert lacking == {"small": {"slots", "operator"}, "bare": {*Part} - {Part.DURABILITY}}
    assert sum(int(count) for count, _, _ in reasons) == skipped
    assert passed > 400


def test_whoever_imports_everything_has_every_test() -> None:
    modules = [
        importlib.import_module(f"{conformance.__name__}.{found.name}")
        for found in pkgutil.iter_modules(conformance.__path__)
    ]
    classes = {
        name
        for module in modules
        for name, found in vars(module).items()
        if name.startswith("Test") and found.__module__ == module.__name__
    }

    assert classes | {"Clock", "clock"} == set(conformance.__all__)
