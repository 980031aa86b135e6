"""``manage.py`` as an operator runs it: in processes of their own, on the test's database.

answer = Project().manage("jobs", "list", "--json")
answer = altered(tmp_path, "USE_TZ = False").manage("check")     # under other settings
with Project().start("jobs_worker") as worker: ...               # and it goes on
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from testproject.postgres.server import ROOT
from tests.builders import settings_of
from tests.commands.manage import Answer


@dataclass(frozen=True, slots=True)
class Project:
    """Processes of the test project."""

    env: Mapping[str, str] = field(default_factory=dict)

    def manage(self, *words: str, **env: str) -> Answer:
        """Run a command to its end."""
        done = subprocess.run(
            self.words(*words),
            cwd=ROOT,
            env=self.environ(**env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=300,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def start(self, *words: str, **env: str) -> subprocess.Popen[str]:
        """Start a command that goes on; what it says can be read."""
        return subprocess.Popen(
            self.words(*words),
            cwd=ROOT,
            env=self.environ(**env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def words(self, *words: str) -> list[str]:
        return [sys.executable, "manage.py", *words]

    def environ(self, **env: str) -> dict[str, str]:
        """The environment of this process, but on the test's database."""
        database = {"DATABASE_NAME": str(settings_of()["NAME"])}
        return os.environ | database | dict(self.env) | env


def altered(folder: Path, settings: str) -> Project:
    """Answer the project under other settings: the lines follow its own, in a module of their own."""
    (folder / "altered_settings.py").write_text(
        f"from testproject.settings import *\n\n{settings}\n", encoding="utf-8"
    )
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    return Project({"DJANGO_SETTINGS_MODULE": "altered_settings", "PYTHONPATH": path})
