"""What `deploy/` offers is well formed, and asks the commands for nothing that they do not have."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import load_command_class

from testproject.postgres.server import ROOT
from ultimate_jobs.conf import get_settings

DEPLOY = ROOT / "deploy"
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
COMPOSE = DEPLOY / "docker" / "compose.yaml"
BIN = Path(sys.executable).parent


def lint(*words: str | Path) -> None:
    done = subprocess.run(
        [BIN / words[0], *words[1:]],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_yaml_is_well_formed() -> None:
    lint("yamllint", "--strict", "--config-file", DEPLOY / ".yamllint", DEPLOY)


def test_the_compose_file_fits_its_schema() -> None:
    lint("check-jsonschema", "--builtin-schema", "vendor.compose-spec", COMPOSE)


def test_the_manifests_fit_the_schemas_of_kubernetes() -> None:
    known = [path for path in KUBERNETES if "keda.sh" not in path.read_text(encoding="utf-8")]

    assert known
    lint("kubernetes-validate", "--strict", *known)


@pytest.mark.skipif(sys.platform != "linux", reason="hadolint comes as a program for Linux")
def test_the_dockerfile_is_good_style() -> None:
    lint("hadolint", DEPLOY / "docker" / "Dockerfile")


SYSTEMD = shutil.which("systemd-analyze")


@pytest.mark.skipif(SYSTEMD is None, reason="there is no systemd here")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_is_one_that_systemd_takes(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text(encoding="utf-8").replace("/srv/app/.venv/bin/python", sys.executable)
    (tmp_path / unit.name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [str(SYSTEMD), "verify", "--man=no", tmp_path / unit.name],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    said = [line for line in done.stderr.splitlines() if unit.name.partition(".")[0] in line]

    assert said == []


def test_units_of_the_target_exist() -> None:
    text = (DEPLOY / "systemd" / "jobs.target").read_text(encoding="utf-8")
    wanted = re.findall(r"jobs-[\w@]+\.service", text)

    assert {re.sub(r"@\d", "@", name) for name in wanted} == {unit.name for unit in UNITS}


def words_of_manage() -> Iterator[tuple[str, list[str]]]:
    """Answer every line that the files give to ``manage.py``, and the file's name."""
    for line in (DEPLOY / "Procfile").read_text(encoding="utf-8").splitlines():
        name, _, command = line.partition(": ")
        if "manage.py" in command:
            yield f"Procfile:{name}", shlex.split(command.partition("manage.py ")[2])
    for unit in UNITS:
        (command,) = re.findall(r"^ExecStart=.*manage\.py (.+)$", unit.read_text(), re.MULTILINE)
        yield unit.name, shlex.split(command)
    for name, service in yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"].items():
        if service.get("command"):
            yield f"compose:{name}", service["command"]
    for path in KUBERNETES:
        for container in containers(path):
            yield path.name, container["args"]


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def containers(path: Path) -> Iterator[dict[str, Any]]:
    for document in documents(path):
        if document["kind"] in ("Deployment", "Job"):
            yield from document["spec"]["template"]["spec"]["containers"]


@pytest.mark.parametrize(("where", "words"), list(words_of_manage()))
def test_a_command_has_the_options_it_is_given(where: str, words: list[str]) -> None:
    command, *options = words
    app = "ultimate_jobs" if command.startswith("jobs") else "django.core"

    load_command_class(app, command).create_parser("manage.py", command).parse_args(options)

    assert where


def test_nothing_is_killed_before_it_has_drained() -> None:
    drain = get_settings().drain_timeout.total_seconds()
    given = [int(seconds) for seconds in re.findall(r"TimeoutStopSec=(\d+)", _texts("systemd"))]
    given += [
        document["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        for path in KUBERNETES
        for document in documents(path)
        if document["kind"] == "Deployment"
    ]
    given += [int(s) for s in re.findall(r"stop_grace_period: (\d+)s", COMPOSE.read_text())]

    assert len(given) >= len(UNITS) + 4
    assert min(given) >= drain + 10


def _texts(folder: str) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in (DEPLOY / folder).iterdir())
