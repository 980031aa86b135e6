"""The exact statements that this package sends, for those who answer for the database."""

from __future__ import annotations

import re
from typing import Any

from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.errors import UsageInvalid

_PARAMETER = re.compile(r"%\((\w+)\)s::(\w+(?:\[\])?)")


def statement_names() -> list[dict[str, str]]:
    """Answer the name of every statement and what it does, in a line."""
    return [
        {"name": name, "about": text.partition("\n")[0].removeprefix("-- ")}
        for name, text in get_driver().operator.statements().items()
    ]


def statement(wanted: str) -> dict[str, Any]:
    """Answer one statement by its name, or by the last part of it.

    Raises:
        UsageInvalid: there is none of this name, or there are several.

    """
    texts = get_driver().operator.statements()
    found = [name for name in texts if wanted in (name, name.rpartition("/")[2])]
    if len(found) != 1:
        said = f"One of several: {', '.join(found)}." if found else "There is no such statement."
        raise UsageInvalid(said, fix="List the statements with: manage.py jobs sql")
    text = texts[found[0]]
    parameters = dict(_PARAMETER.findall(text))
    return {
        "name": found[0],
        "parameters": [{"name": name, "type": kind} for name, kind in parameters.items()],
        "sql": text.replace("%%", "%"),
    }
