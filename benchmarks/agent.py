"""A child process that does what it is told, one line of JSON at a time, and answers likewise.

What is measured runs in children, each with its own settings and connections; the parent only
times nothing and decides the order. ``serve`` is the child's whole life, ``Agent`` the parent's end.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def serve(target: object) -> None:
    """Call methods of ``target`` as standard input says, until it ends."""
    for line in sys.stdin:
        asked = json.loads(line)
        answer = getattr(target, asked["call"])(**asked["words"])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


class Agent:
    """A child that serves calls."""

    def __init__(self, module: str, *, folder: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def call(self, name: str, /, **words: Any) -> Any:
        """Have the child do something; answer what it answers.

        Raises:
            RuntimeError: it ended instead; what it wrote to standard error says why.

        """
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the child has no pipes")
        process.stdin.write(json.dumps({"call": name, "words": words}) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the child ended while it did {name}")
        return json.loads(line)

    def close(self) -> None:
        """End the child by ending its input."""
        with self._process as process:
            if process.stdin is not None:
                process.stdin.close()
