"""Distributions, built once for all tests that want them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builders import settings_of, sql

ROOT = Path(__file__).resolve().parent.parent.parent
LEFT_OUT = shutil.ignore_patterns(
    ".*", "__pycache__", "build", "dist", "_build", "htmlcov", "*.egg-info", "screenshots"
)


@dataclass(frozen=True, slots=True)
class Distributions:
    """What `python -m build` makes: the wheel comes out of the sdist."""

    sdist: Path
    wheel: Path


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    folder = tmp_path_factory.mktemp("distributions")
    source = folder / "source"
    shutil.copytree(ROOT, source, ignore=LEFT_OUT)
    words = ["-m", "build", "--no-isolation", "--outdir", str(folder / "dist"), str(source)]
    built = subprocess.run(
        [sys.executable, *words], capture_output=True, encoding="utf-8", timeout=250, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    (wheel,) = (folder / "dist").glob("*.whl")
    return Distributions(sdist, wheel)


OURS = ("DJANGO_", "DATABASE_", "PYTEST", "COV", "JOBS_", "PG")
"""How the names of variables begin that say something about these tests."""


def outside(installed: Path) -> dict[str, str]:
    """Answer the environment of a stranger, who knows this package by what is installed alone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return kept | {"PYTHONPATH": str(installed)}


@pytest.fixture
def database() -> Iterator[str]:
    """Answer the name of a database that has nothing in it."""
    name = f"{settings_of()['NAME']}_site"
    sql(f'DROP DATABASE IF EXISTS "{name}"')
    sql(f'CREATE DATABASE "{name}"')
    yield name
    sql(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture(scope="session")
def installed(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Answer the folder in which the wheel, and nothing else, is installed."""
    folder = tmp_path_factory.mktemp("installed")
    words = ["--quiet", "--no-deps", "--no-index", "--target", str(folder)]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *words, str(distributions.wheel)],
        capture_output=True,
        timeout=250,
        check=True,
    )
    return folder
