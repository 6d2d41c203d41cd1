"""The unprivileged account that embedded servers run as when `up` is run by root (Postgres refuses to run as root)."""

import os
import pwd
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from controlplane.stack.paths import StateDirectoryUnusable


class Identity(TypedDict, total=False):
    """Keyword arguments of `subprocess.Popen` that change who a program runs as; empty: as ourselves."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    uid: int
    gid: int

    @property
    def identity(self) -> Identity:
        return Identity(user=self.uid, group=self.gid, extra_groups=[])


def server_account(data: Path) -> Account | None:
    """Who the servers run as: None (ourselves) unless we are root; then the owner of `data`, so that a later installed
    `postgres` user changes nothing, else the system's `postgres` user, else `nobody`."""
    if os.geteuid() != 0:
        return None
    if data.exists() and (owner := data.stat()).st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise StateDirectoryUnusable(
        "Embedded Postgres does not run as root, and there is no user `postgres` or `nobody` to run it as.",
        remedy="Run this as an ordinary user, or set DATABASE_URL to a Postgres server.",
    )


def own_folder(folder: Path, account: Account | None) -> None:
    """Make `folder`, closed to everyone but the account."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if account is not None:
        os.chown(folder, account.uid, account.gid)


def require_reachable(folder: Path) -> None:
    """Raise unless an unprivileged account can pass through every parent of `folder`."""
    for parent in folder.parents:
        if not stat.S_IMODE(parent.stat().st_mode) & stat.S_IXOTH:
            raise StateDirectoryUnusable(
                f"As root, the embedded servers run as another user, who cannot pass through {parent} to {folder}.",
                remedy="Name a folder outside root's home with --state-dir or CONTROLPLANE_STATE_DIR.",
            )


def reachable_copy(source: Path, programs: Path, name: str) -> Path:
    """`programs/name`: a copy of the folder `source` that any account can read and run, made once and whole.

    Modes are set, not inherited: with a umask of 077 neither the installed packages nor new folders let others in.
    """
    copy = programs / name
    if not copy.exists():
        partial = programs / f"{Path(name).name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, partial, symlinks=True)
        for path in (partial, *partial.rglob("*")):
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(mode | 0o444 | (0o111 if mode & stat.S_IXUSR else 0))
        for folder in (programs, *(parent for parent in copy.parents if parent.is_relative_to(programs))):
            folder.chmod(0o755)
        partial.rename(copy)
    return copy
