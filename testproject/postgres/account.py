"""Who the server runs as, and what that account may enter. PostgreSQL refuses to run as root."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from testproject.postgres.errors import PostgresFailed


@dataclass(frozen=True, slots=True)
class Account:
    """This process's own account or, for root, another one."""

    uid: int
    gid: int

    @classmethod
    def of(cls, folder: Path) -> Account:
        """Choose, for root, the owner of the folder or of the one around it, or else `nobody`."""
        if os.geteuid() != 0:
            return cls(os.geteuid(), os.getegid())
        owners = [path.stat().st_uid for path in (folder, folder.parent) if path.exists()]
        known = {user.pw_uid: user for user in pwd.getpwall() if user.pw_uid != 0}
        user = next((known[uid] for uid in owners if uid in known), None) or pwd.getpwnam("nobody")
        return cls(user.pw_uid, user.pw_gid)

    @property
    def is_other(self) -> bool:
        return self.uid != os.geteuid()

    def own(self, folder: Path) -> None:
        """Make the folder, and hand over all that is in it.

        Raises:
            PostgresFailed: it is somebody else's.

        """
        folder.mkdir(exist_ok=True)
        if self.is_other and folder.stat().st_uid != self.uid:
            for path in [folder, *folder.rglob("*")]:
                os.chown(path, self.uid, self.gid, follow_symlinks=False)
        if not os.access(folder, os.W_OK):
            raise PostgresFailed(
                f"{folder} belongs to another user: remove it, or set DATABASE_URL."
            )

    def make_private(self, folder: Path) -> None:
        """Make a folder that only this account can enter.

        Raises:
            PostgresFailed: one is there and it is somebody else's.

        """
        try:
            folder.mkdir(mode=0o700)
            if self.is_other:
                os.chown(folder, self.uid, self.gid)
        except FileExistsError:
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != self.uid:
                raise PostgresFailed(f"{folder} belongs to another user: remove it.") from None

    def open_the_way(self, folder: Path, trees: Iterable[Path]) -> None:
        """Let another account pass to the folder and read the trees, where root's umask forbade it."""
        if not self.is_other:
            return
        for tree in trees:
            _permit_passage(tree)
            for path in [tree, *tree.rglob("*")]:
                passes = path.stat().st_mode & stat.S_IXUSR
                _permit(path, stat.S_IROTH | (stat.S_IXOTH if passes else 0))
        _permit_passage(folder)


def _permit_passage(path: Path) -> None:
    for parent in path.parents:
        _permit(parent, stat.S_IXOTH)


def _permit(path: Path, bits: int) -> None:
    mode = path.stat().st_mode
    if mode & bits != bits:
        path.chmod(stat.S_IMODE(mode) | bits)
