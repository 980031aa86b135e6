"""Everything that a page says can be said in another language, and is, in those that are shipped."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import polib
import pytest
from django.test import override_settings
from django.utils.translation.template import templatize

import ultimate_jobs
from tests.admin.people import log, somebody, url
from tests.builders import a_job
from ultimate_jobs.core.states import JobState

PACKAGE = Path(ultimate_jobs.__file__).parent
TEMPLATES = sorted((PACKAGE / "templates").glob("**/*.html"))
CATALOGS = sorted(PACKAGE.glob("locale/*/LC_MESSAGES/django.po"))
CALLS = {"_", "gettext", "gettext_lazy", "ngettext"}
QUOTED = r"u?('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
SPOKEN = r'\b(?:aria-label|title|placeholder|alt)="([^"]*)"'


def untranslated(template: str) -> Iterator[str]:
    """Name the texts of a template that are the same in every language."""
    block = r"\{% blocktranslate.*?%\}.*?\{% endblocktranslate %\}"
    bare = re.sub(rf"{block}|\{{%.*?%\}}|\{{\{{.*?\}}\}}", "", template, flags=re.DOTALL)
    for text in [*re.findall(SPOKEN, bare), *re.split(r"<[^>]*>", bare)]:
        if re.search(r"[A-Za-z]", text):
            yield text.strip()


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_template_says_nothing_that_cannot_be_translated(path: Path) -> None:
    assert list(untranslated(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "text", ["<p>Jobs</p>", '<a title="Jobs" href="/">1</a>', "{{ n }} of {{ most }}"]
)
def test_what_is_not_translated_is_found(text: str) -> None:
    assert list(untranslated(text)) != []


def asked_for() -> set[str]:
    """Answer what the templates and the code want translated."""
    found: set[str] = set()
    for path in TEMPLATES:
        called = templatize(path.read_text(encoding="utf-8"), origin=str(path))
        for quoted in re.findall(rf"(?:_|gettext)\({QUOTED}", called):
            found.add(ast.literal_eval(quoted))
    for path in PACKAGE.glob("**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                first = node.args[0] if node.args else None
                if node.func.id in CALLS and isinstance(first, ast.Constant):
                    found.add(str(first.value))
    return found


@pytest.mark.parametrize("path", CATALOGS, ids=lambda path: path.parent.parent.name)
def test_a_catalog_is_whole_and_compiled(path: Path) -> None:
    catalog = polib.pofile(str(path))
    compiled = polib.mofile(str(path.with_suffix(".mo")))

    assert {entry.msgid for entry in catalog} == {text.replace("%%", "%") for text in asked_for()}
    assert [entry.msgid for entry in catalog if not entry.translated()] == []
    assert {(one.msgid, one.msgstr, *one.msgstr_plural.values()) for one in compiled} == {
        (one.msgid, one.msgstr, *one.msgstr_plural.values()) for one in catalog
    }


@pytest.mark.parametrize("path", CATALOGS, ids=lambda path: path.parent.parent.name)
def test_a_translation_fills_in_what_the_original_does(path: Path) -> None:
    def places(text: str) -> set[str]:
        return set(re.findall(r"%\(\w+\)s", text))

    for entry in polib.pofile(str(path)):
        for text in [entry.msgstr, *entry.msgstr_plural.values()]:
            assert not text or places(text) == places(entry.msgid), entry.msgid


@pytest.mark.django_db
@override_settings(LANGUAGE_CODE="de")
def test_a_page_speaks_the_language_of_its_reader() -> None:
    shown = somebody("view_job").get(url("overview_changelist")).content.decode()

    for words in ("Überblick", "Durchsatz", "In Arbeit", "Längste Wartezeit", "Aktualisiert"):
        assert words in shown


@pytest.mark.django_db
@override_settings(LANGUAGE_CODE="de")
def test_the_log_is_in_english_whoever_acts() -> None:
    row = a_job(JobState.DEAD)
    client = somebody("view_job", "retry_job")

    answer = client.post(url("job_act", row.id, "retry"), follow=True)

    assert "Wiederholen" in answer.content.decode()
    assert [line.change_message.partition(";")[0] for line in log()] == ["Retry: retried the job"]
