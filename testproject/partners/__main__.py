"""Serve the partners until SIGTERM or SIGINT: `python -m testproject.partners`."""

from __future__ import annotations

import signal
import socket
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from types import FrameType

from testproject.partners.server import Partners

PORT = 8900
BOOKS = Path(tempfile.gettempdir()) / "ultimate_jobs-partners.jsonl"


def main() -> None:
    parser = ArgumentParser(prog="python -m testproject.partners", description=__doc__)
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--descriptor", type=int, help="a listening socket to serve instead")
    parser.add_argument("--books", type=Path, default=BOOKS)
    parser.add_argument("--seconds", type=float, default=0.0, help="how long each call takes")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    if options.descriptor is None:
        listening = socket.create_server(("127.0.0.1", options.port), backlog=128)
    else:
        listening = socket.socket(fileno=options.descriptor)
    with Partners(listening, options.books, options.seconds) as server:
        server.serve_forever()


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(0)


if __name__ == "__main__":
    main()
