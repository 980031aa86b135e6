"""`python -m testproject.postgres stop` ends the server, whoever uses it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from testproject.postgres import SERVER
from testproject.postgres.server import Server


def main(arguments: list[str]) -> None:
    match arguments:
        case ["keep", folder, keeper]:
            # The child is nobody's child once this process has ended, so nobody has to wait for it.
            if os.fork() == 0:
                Server(Path(folder)).keep(int(keeper))
        case ["stop"]:
            SERVER.stop()
        case _:
            sys.exit("usage: python -m testproject.postgres stop")


if __name__ == "__main__":
    main(sys.argv[1:])
