"""What is published holds everything that the package needs, and nothing that it does not."""

from __future__ import annotations

import configparser
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import PurePath

import pytest

from tests.packaging.conftest import ROOT, Distributions

pytestmark = [pytest.mark.slow, pytest.mark.scenario]

PACKAGE = ROOT / "ultimate_jobs"


def files_of_the_package() -> set[str]:
    return {
        str(path.relative_to(ROOT))
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(
    distributions: Distributions,
) -> None:
    with zipfile.ZipFile(distributions.wheel) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}

    assert names == files_of_the_package()
    kinds = {PurePath(name).suffix for name in names}
    assert {".py", ".sql", ".html", ".css", ".js", ".typed"} <= kinds


def test_the_sdist_holds_what_the_tests_need(distributions: Distributions) -> None:
    with tarfile.open(distributions.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}

    assert files_of_the_package() <= names
    for folder in ("docs", "testproject", "tests", "benchmarks"):
        kept = {
            str(path.relative_to(ROOT))
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and not {"__pycache__", "_build"} & {*path.parts}
        }
        assert kept - names == set()
    assert {"Makefile", "manage.py", "ruff.toml", "setup.cfg", "pyproject.toml"} <= names
    assert {"README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"} <= names


def test_the_metadata_says_what_setup_cfg_says(distributions: Distributions) -> None:
    ini = configparser.ConfigParser()
    ini.read(ROOT / "setup.cfg", encoding="utf-8")
    with zipfile.ZipFile(distributions.wheel) as wheel:
        (path,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(wheel.read(path))

    assert metadata["Name"] == "ultimate_jobs"
    assert metadata["Version"] == ini["metadata"]["version"]
    assert "BSD-3-Clause" in (metadata["License-Expression"], metadata["License"])
    assert metadata["Requires-Python"] == ini["options"]["python_requires"]
    asked = {line.partition(";")[0].strip() for line in metadata.get_all("Requires-Dist", [])}
    assert set(ini["options"]["install_requires"].split()) <= asked
    extras = set(metadata.get_all("Provides-Extra", []))
    assert {name.replace("_", "-") for name in ini["options.extras_require"]} == extras
