"""The site is made without a warning, and knows everything that can be imported."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import ultimate_jobs
from tests.docs.test_docs_reference import COMMANDS, options_of, parser_of
from tests.docs.test_docs_walk import PAGES, ROOT


@pytest.mark.slow
@pytest.mark.scenario
def test_the_site_is_made_without_a_warning(tmp_path: Path) -> None:
    words = ["--fail-on-warning", "--keep-going", "--quiet", "-d", str(tmp_path / "doctrees")]
    made = subprocess.run(
        [sys.executable, "-m", "sphinx", *words, str(ROOT / "docs"), str(tmp_path / "html")],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=250,
        check=False,
    )

    assert (made.returncode, made.stderr) == (0, "")
    page = (tmp_path / "html" / "api.html").read_text(encoding="utf-8")
    assert set(re.findall(r'id="ultimate_jobs\.(\w+)"', page)) == set(ultimate_jobs.__all__)


def test_every_public_name_is_on_the_page_of_the_api() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")

    assert set(re.findall(r"^\.\. auto\w+:: (\w+)$", text, re.MULTILINE)) == set(
        ultimate_jobs.__all__
    )


def test_every_page_is_reached_from_the_first() -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    reached = [line for tree in trees for line in tree.splitlines() if line and line[0] != ":"]
    pages = {
        str(path.relative_to(ROOT / "docs").with_suffix(""))
        for path in (ROOT / "docs").glob("**/*.md")
        if not path.name.startswith(("0", "index")) and "_build" not in path.parts
    }

    assert sorted(reached) == sorted(pages)


def commands_of(path: Path) -> list[str]:
    """Answer the lines of a page that call this package, from blocks and from the prose."""
    text = path.read_text(encoding="utf-8")
    spans = re.findall(r"`((?:jobs_(?:worker|relay|scheduler)|jobs [a-z])[^`\n]*)`", text)
    lines = re.findall(r"manage\.py (jobs_?\w*[^\n|`]*)", text)
    return [*spans, *lines]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_that_a_page_names_exists_with_its_options(path: Path) -> None:
    for line in commands_of(path):
        words = [word.strip("[]()…,.;:") for word in line.split()]
        command = words[0]
        verbs = [verb for name, verb in COMMANDS if name == command and verb]
        said = " ".join(word for word in words[1:3] if re.fullmatch(r"[a-z-]+", word))
        verb = next((verb for verb in verbs if said == verb or said.startswith(f"{verb} ")), None)
        if command == "jobs":
            if verb is None:
                assert any(one.startswith(said) for one in verbs), line
                continue
        else:
            assert command in {name for name, _ in COMMANDS}, line
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert options <= options_of(parser_of(command, verb)) | {"--no-reload"}, line
