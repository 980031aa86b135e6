"""Locks that the kernel releases: held by a descriptor and by all that inherited it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from testproject.postgres.account import Account


def lock(folder: Path, name: str, *, shared: bool = False, wait: bool = True) -> int:
    """Take the lock and answer its descriptor; closing that, here and in all heirs, releases it.

    Raises:
        BlockingIOError: another process holds it and `wait` is not set.

    """
    path = folder / f"{name}.lock"
    mode = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
    while True:
        descriptor = _open(path)
        try:
            fcntl.flock(descriptor, mode)
        except BlockingIOError:
            os.close(descriptor)
            raise
        if is_at(descriptor, path):
            return descriptor
        os.close(descriptor)


def try_lock(folder: Path, name: str) -> int | None:
    """Take the lock if nobody holds it."""
    try:
        return lock(folder, name, wait=False)
    except BlockingIOError:
        return None


def is_at(descriptor: int, path: Path) -> bool:
    """Tell whether the open file is still the one at the path: the folder may have been removed."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _open(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    account = Account.of(path.parent)
    if account.is_other:
        os.fchown(descriptor, account.uid, account.gid)
    return descriptor
