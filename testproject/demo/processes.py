"""The demo's processes: started in sessions of their own, ended by their process id and nothing else."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
STOP_SECONDS = 20
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ProcessEndedError(Exception):
    """A process ended that should still run."""


class Processes:
    """What runs at the moment, by name, with a log file for each."""

    def __init__(self) -> None:
        self.logs = Path(tempfile.mkdtemp(prefix="ultimate_jobs-demo-"))
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = dict(os.environ)

    def start(self, name: str, *arguments: str, inherit: Sequence[int] = ()) -> None:
        with (self.logs / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                env=self.environment,
                pass_fds=inherit,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def start_partners(self, *, seconds: float) -> int:
        """Start the shop's partners and answer their port; who starts later knows where they are."""
        options = ["--books", str(self.logs / "partners.jsonl"), "--seconds", str(seconds)]
        port = self._start_server("partners", "testproject.partners", *options, "--descriptor")
        self.environment["SHOP_PARTNERS_URL"] = f"http://127.0.0.1:{port}"
        return port

    def start_web(self) -> int:
        """Start the web server and answer its port."""
        return self._start_server("web", "testproject.demo.web")

    def _start_server(self, name: str, module: str, *arguments: str) -> int:
        """Start a server on a socket that listens already; its number is the last argument."""
        with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
            descriptor = listening.fileno()
            self.start(name, "-m", module, *arguments, str(descriptor), inherit=[descriptor])
            port: int = listening.getsockname()[1]
            return port

    @contextlib.contextmanager
    def paused(self, name: str) -> Iterator[int]:
        """Hold the process still in the block and answer its id."""
        process = self.running[name]
        process.send_signal(signal.SIGSTOP)
        try:
            yield process.pid
        finally:
            process.send_signal(signal.SIGCONT)

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def ensure_all_run(self) -> None:
        for name, process in self.running.items():
            if process.poll() is not None:
                tail = "\n".join(self.log(name).read_text(errors="replace").splitlines()[-30:])
                raise ProcessEndedError(f"{name} ended with {process.returncode}:\n{tail}")

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def stop(self) -> dict[str, int]:
        """End all that runs, kindly first; answer how each ended. Nothing interrupts this."""
        before = {number: signal.signal(number, signal.SIG_IGN) for number in ENDINGS}
        try:
            for process in self.running.values():
                process.terminate()
            return {name: _ended(process) for name, process in self.running.items()}
        finally:
            self.running.clear()
            shutil.rmtree(self.logs, ignore_errors=True)
            for number, handler in before.items():
                signal.signal(number, handler)


def _ended(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
