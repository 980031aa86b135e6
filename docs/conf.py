"""How Sphinx makes the site out of these pages."""

from __future__ import annotations

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
django.setup()

project = "ultimate_jobs"
copyright = "ultimate_jobs contributors"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinxcontrib.mermaid",
]
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True, "show-inheritance": False}
napoleon_use_rtype = False

html_theme = "furo"
html_title = "ultimate_jobs"
copybutton_prompt_text = "$ "

exclude_patterns = ["_build"]
