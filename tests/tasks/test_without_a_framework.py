"""Django 5.2 without the backport: the backend says what is missing, the rest works."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import django
import pytest
from django.test import override_settings

import ultimate_jobs.tasks
from ultimate_jobs.apps import _task_backends
from ultimate_jobs.errors import TasksFrameworkMissing

FRAMEWORK = Path(__file__).parents[2] / "ultimate_jobs" / "tasks" / "framework.py"


def test_the_error_names_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(django, "VERSION", (5, 2, 19, "final", 0))
    monkeypatch.setitem(sys.modules, "django_tasks", None)
    spec = spec_from_file_location("a_second_framework", FRAMEWORK)
    assert spec is not None
    assert spec.loader is not None

    with pytest.raises(TasksFrameworkMissing, match="pip install django-tasks"):
        spec.loader.exec_module(module_from_spec(spec))


@override_settings(TASKS={})
def test_a_project_without_tasks_needs_no_framework() -> None:
    assert _task_backends() == {}


def test_the_package_has_no_other_names() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = ultimate_jobs.tasks.nothing
