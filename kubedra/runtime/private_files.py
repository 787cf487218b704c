"""Private files and directories: only their owner can read them.

A data directory has Secrets and the key that signs tokens. Directories have mode 0700, files 0600. Files that an older
release left readable are restricted on next use. Files are never opened through a symbolic link, so that another user
of a shared directory cannot redirect writes.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

__all__ = ["close_file", "make_directory", "open_file", "write"]

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
#: Prefixes of kubedra's files in a data directory.
_OURS = (
    ".kubeconfig",
    "checkpoint",
    "controllers.kubeconfig",
    "kubeconfig",
    "kubedra.db",
    "kubelets",
    "lock",
    "node-",
    "pgpass",
    "postgres-password",
    "reserve",
    "revision",
    "run",
    "server.",
    "signing-ca.",
    "tls.",
    "tokens.csv",
)


def make_directory(path: Path) -> None:
    """Create a private directory, or restrict an existing one to its owner. Raises OSError.

    A directory that also has other files, such as a home directory passed as `--data-dir`, keeps its mode. Its private
    files are restricted one by one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir(mode=DIRECTORY_MODE)
    except FileExistsError:
        if not path.is_dir():
            raise
        found = path.stat()
        open_to_others = stat.S_IMODE(found.st_mode) & 0o077
        if open_to_others and found.st_uid == os.geteuid() and all(_is_ours(entry.name) for entry in path.iterdir()):
            path.chmod(DIRECTORY_MODE)


def _is_ours(name: str) -> bool:
    return name.startswith(_OURS)


def open_file(path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> int:
    """Return a descriptor of a file of mode 0600, created if `flags` include O_CREAT.

    Raises OSError, also for a symbolic link and for anything but a regular file.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, FILE_MODE)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "not a regular file", str(path))
        if stat.S_IMODE(found.st_mode) != FILE_MODE and found.st_uid == os.geteuid():
            os.fchmod(descriptor, FILE_MODE)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def close_file(path: Path) -> None:
    """Restrict a file to its owner, if it exists. Raises OSError."""
    try:
        os.close(open_file(path, os.O_RDONLY))
    except FileNotFoundError:
        return


def write(path: Path, data: bytes | str, mode: int = FILE_MODE) -> None:
    """Replace the content of a file atomically. Raises OSError.

    `mode` is for files that others may read. A symbolic link of that name is replaced; its target is not changed.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            os.fchmod(descriptor, mode)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
