"""Where the server's packages are and how a child process runs them.

In a wheel they stand in the private directory `kubedra/_server`; in a checkout in the repository's root. The child gets
that directory first on PYTHONPATH and runs with `-P`, so that neither the host's working directory nor its own
`apiserver/` or
`controllers/` package can come in between.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def server_root() -> Path:
    """The directory that holds `apiserver` and `controllers`."""
    here = Path(__file__).resolve().parent
    private = here / "_server"
    return private if private.is_dir() else here.parent


def command(module: str, *args: str) -> list[str]:
    """The command line that runs one of the server's modules in a child process."""
    return [sys.executable, "-P", "-m", module, *args]


def environment() -> dict[str, str]:
    """The child's environment: the caller's, with the server's packages first on PYTHONPATH."""
    inherited = os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join(part for part in (str(server_root()), inherited) if part)
    return {**os.environ, "PYTHONPATH": path}
