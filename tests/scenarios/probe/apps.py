"""The app."""

from __future__ import annotations

from django.apps import AppConfig


class ProbeConfig(AppConfig):
    name = "tests.scenarios.probe"
    label = "probe"
