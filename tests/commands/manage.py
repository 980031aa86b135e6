"""Commands as a shell meets them: arguments in; an exit code, output and errors out."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from typing import Any

from django.core.management import load_command_class


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)


def manage(command: str, *arguments: str) -> Answer:
    """Run ``manage.py command arguments…`` in this process."""
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            load_command_class("ultimate_jobs", command).run_from_argv(
                ["manage.py", command, *arguments]
            )
        except SystemExit as exit_:
            code = exit_.code or 0
    return Answer(code, out.getvalue(), err.getvalue())
