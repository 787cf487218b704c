"""`kubedra data check DIR` and `kubedra data repair DIR`: find damage in a data directory, and repair it.

Exit codes of check: 0, no damage; 1, damage, one line each. Repair: 0, the directory can be served.
Both: 2, wrong arguments, a server runs on the directory, or nothing in it can be read.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

from apiserver.storage import UnusableDatabase
from kubedra.command.arguments import Parser, program


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    prog = program("python -m apiserver.command.data")
    parser = Parser(prog=prog, description="Check or repair a damaged data directory (SQLite).")
    parser.add_argument(
        "command", choices=("check", "repair"), help="check: list the damage; repair: recover the intact objects"
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="data directory of the server")
    options = parser.parse_args(argv)
    try:
        return _run(options.directory, repair=options.command == "repair")
    except (UnusableDatabase, OSError, sqlite3.Error) as error:
        print(f"{prog}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


def _run(directory: Path, *, repair: bool) -> int:
    from apiserver.storage.sqlite.opening import lock_directory
    from apiserver.storage.sqlite.salvage import inspect, rebuild

    if not directory.is_dir():
        raise UnusableDatabase(f"{directory}: no such directory")
    release = lock_directory(directory)
    try:
        found = inspect(directory)
        for problem in found.problems:
            print(problem)
        print(f"{len(found.live_rows)} objects are intact, at revision {max(found.revision, found.answered)}")
        if not found.problems:
            return 0
        if not repair:
            print(f"recover them with `kubedra data repair {directory}`")
            return 1
        kept = rebuild(directory, found)
        print(f"repaired; the damaged files are kept as {kept}*")
        return 0
    finally:
        release()


if __name__ == "__main__":
    sys.exit(main())
