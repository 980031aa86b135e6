"""Break every rule of the table in turn: `python -m tests.mutations`, or with words that its line holds.

Works in copies of the project, one for each core, each with a database of its own. Prints a line for
each mutant with the test that noticed it, and exits 1 when one survives or cannot be judged.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from testproject import postgres
from tests.mutations.mutants import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parent.parent.parent
COPIED = ("ultimate_jobs", "testproject", "tests", "benchmarks", "docs", "manage.py", "setup.cfg")
SECONDS = 900
"""No mutant takes longer; one that hangs has been noticed."""

SUMMED_UP = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)
PASSED, FAILED = 0, 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant: the test that failed, or why there is none."""

    mutant: Mutant
    noticed_by: str | None
    instead: str = ""
    seconds: float = 0.0


class Copy:
    """A copy of the project that is broken and mended, and its database."""

    def __init__(self, folder: Path, number: int) -> None:
        self._folder = folder / str(number)
        self._environment = os.environ | {"DATABASE_NAME": f"mutants_{number}"}
        ignored = shutil.ignore_patterns("__pycache__", ".*")
        for name in COPIED:
            place = ROOT / name
            if place.is_dir():
                shutil.copytree(place, self._folder / name, ignore=ignored)
            else:
                shutil.copy(place, self._folder / name)

    def judge(self, mutant: Mutant) -> Verdict:
        """Break one rule, run its tests, and mend it."""
        began = time.monotonic()
        with self._broken(mutant):
            code, said = self.test(mutant.tests)
        seconds = time.monotonic() - began
        found = SUMMED_UP.findall(said)
        if code == FAILED and found:
            return Verdict(mutant, found[0], seconds=seconds)
        if code == PASSED:
            return Verdict(mutant, None, "SURVIVED", seconds)
        return Verdict(mutant, None, f"CANNOT BE JUDGED:\n{said[-2_000:]}", seconds)

    def test(self, tests: Sequence[str], *options: str) -> tuple[int, str]:
        """Run tests until one fails; answer the exit code and what was said."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--reuse-db", "--timeout=120"]
        try:
            done = subprocess.run(
                [*command, *options, *(f"tests/{path}" for path in tests)],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return FAILED, "FAILED tests/ did not end"
        return done.returncode, done.stdout + done.stderr

    @contextmanager
    def _broken(self, mutant: Mutant) -> Iterator[None]:
        file = self._folder / "ultimate_jobs" / mutant.file
        whole = file.read_text(encoding="utf-8")
        if whole.count(mutant.old) != 1:
            raise ValueError(f"The edit cannot be made in one place: {mutant.breaks}")
        file.write_text(whole.replace(mutant.old, mutant.new), encoding="utf-8")
        try:
            yield
        finally:
            file.write_text(whole, encoding="utf-8")


def main(words: Sequence[str]) -> int:
    """Judge the mutants whose line holds all the words; answer the exit code."""
    chosen = [mutant for mutant in MUTANTS if all(word in mutant.breaks for word in words)]
    postgres.serve()
    os.environ.setdefault("DATABASE_URL", postgres.SERVER.url)
    with tempfile.TemporaryDirectory(prefix="ultimate_jobs-mutants-") as folder:
        copies = [Copy(Path(folder), number) for number in range(os.cpu_count() or 1)]
        tests = sorted({path for mutant in chosen for path in mutant.tests})
        print(f"{len(tests)} files and folders of tests have to pass while nothing is broken ...")
        code, said = copies[0].test(tests, "-n", "logical")
        if code != PASSED:
            print(said)
            return 1
        return _report(chosen, copies)


def _report(mutants: Sequence[Mutant], copies: Sequence[Copy]) -> int:
    free: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def judge(mutant: Mutant) -> Verdict:
        copy = free.get()
        try:
            return copy.judge(mutant)
        finally:
            free.put(copy)

    unnoticed = 0
    with ThreadPoolExecutor(len(copies)) as pool:
        for verdict in pool.map(judge, mutants):
            unnoticed += verdict.noticed_by is None
            found = verdict.noticed_by or verdict.instead
            print(f"{verdict.seconds:4.0f} s  {verdict.mutant.breaks}\n        {found}", flush=True)
    print(f"{len(mutants)} rules broken, {len(mutants) - unnoticed} times noticed.")
    return 1 if unnoticed or not mutants else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
