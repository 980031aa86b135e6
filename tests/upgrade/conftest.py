"""The previous release, unpacked, and a site over either release."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.builders import settings_of

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


class Site:
    """A process of one release; each order is answered before the next is given."""

    def __init__(self, popen: subprocess.Popen[str]) -> None:
        self._popen = popen

    def do(self, what: str, **details: Any) -> Any:
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._popen.stdin.write(json.dumps({"do": what, **details}) + "\n")
        self._popen.stdin.flush()
        line = self._popen.stdout.readline()
        assert line, f"the site ended with {self._popen.wait()}"
        return json.loads(line)


@contextmanager
def a_site(release: str, package: Path) -> Iterator[Site]:
    """Run a site whose package lies in a folder, over the database of this test."""
    database = settings_of()
    known = ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT")
    popen = subprocess.Popen(
        [sys.executable, "-P", str(HERE / "site.py")],
        env=os.environ
        | {
            "PYTHONPATH": str(package),
            "RELEASE": release,
            "SITE_DATABASE": json.dumps({name: database[name] for name in known}),
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Site(popen)
    finally:
        popen.stdin.close()  # type: ignore[union-attr]
        popen.wait()
        popen.stdout.close()  # type: ignore[union-attr]


@pytest.fixture(scope="session")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the previous release; answer the folder that holds its package."""
    folder = tmp_path_factory.mktemp("previous")
    with tarfile.open(HERE / "previous.tar.xz") as archive:
        # Not every Python 3.11 has the filter, and none after it is silent without.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        archive.extractall(folder)  # noqa: S202 - the project made it
    return folder


@pytest.fixture
def sites(previous: Path, transactional_db: None) -> Iterator[Callable[[str], Site]]:
    """Answer a site of the previous release or of the present one, started when first asked for."""
    folders = {"previous": previous, "present": ROOT}
    running: dict[str, Site] = {}
    with ExitStack() as stack:

        def site(release: str) -> Site:
            if release not in running:
                running[release] = stack.enter_context(a_site(release, folders[release]))
            return running[release]

        yield site
