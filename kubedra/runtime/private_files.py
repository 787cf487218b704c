"""Files and directories that hold secrets: readable by their owner alone, never reached through somebody else's link.

A data directory holds Secrets and the key that signs tokens. Directories are made 0700 and files 0600; what an older
release left open is closed when it is next used. A file is never opened through a symbolic link, so that another user
of a shared directory cannot have us write elsewhere.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

__all__ = ["close_file", "make_directory", "open_file", "write"]

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
#: First parts of the names that kubedra gives files of a data directory.
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
    """Makes a directory for secrets, or closes an existing one to others. Raises OSError.

    A directory that also holds somebody else's files, as when `--data-dir` names a home directory, keeps its mode: the
    files in it are closed one by one.
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
    """A descriptor of a file of mode 0600, made if `flags` say so. Raises OSError, also where the name is a link or no
    regular file.
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
    """Closes an existing file to others; one that is not there is left alone. Raises OSError."""
    try:
        os.close(open_file(path, os.O_RDONLY))
    except FileNotFoundError:
        return


def write(path: Path, data: bytes | str, mode: int = FILE_MODE) -> None:
    """Replaces a file's content as a whole: it is there with all of `data` or as it was. Raises OSError. `mode` is for
    files that others are meant to read.

    The new file takes the name's place, so that a link of that name goes and what it led to stays as it is.
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
