"""The web server of the demo, on a listening socket that it inherits: `python -m testproject.demo.web FD`.

The socket is there before the process is, so nobody has to guess a free port or wait for it.
"""

from __future__ import annotations

import socket
import sys

import waitress

from testproject.wsgi import application


def main(descriptor: int) -> None:
    waitress.serve(application, sockets=[socket.socket(fileno=descriptor)], threads=8)


if __name__ == "__main__":
    main(int(sys.argv[1]))
