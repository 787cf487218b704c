"""Run `python -m apiserver.openapi --write | --check`; see the package."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parents[2] / "openapi"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m apiserver.openapi", description="Write the OpenAPI documents, or check that they are current."
    )
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--write", action="store_true", help="write openapi/")
    choice.add_argument("--check", action="store_true", help="exit with 1 if openapi/ is not current")
    parser.add_argument("--directory", type=Path, default=DIRECTORY, help="instead of openapi/ at the project's root")
    options = parser.parse_args(argv)
    from apiserver.openapi.documents import build_files

    files = build_files()
    present = {str(path.relative_to(options.directory)) for path in options.directory.rglob("*") if path.is_file()}
    stale = sorted(present - files.keys())
    changed = [
        name
        for name, content in files.items()
        if name not in present or (options.directory / name).read_bytes() != content
    ]
    if options.check:
        for name in [*changed, *stale]:
            print(f"openapi/{name} is not current: run python -m apiserver.openapi --write", file=sys.stderr)
        return 1 if changed or stale else 0
    for name in changed:
        path = options.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[name])
    for name in stale:
        (options.directory / name).unlink()
    print(f"{len(files)} files, {len(changed)} written, {len(stale)} removed")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
