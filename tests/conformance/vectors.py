"""Runs recorded test vectors against the implementation.

    python -m tests.conformance.vectors --dir DIR [--only cel,quantity] [--verbose] [--list-skipped]

Every file `NAME.jsonl` in DIR that has a handler is run, one case a line. A handler is a function
`handle(case) -> None | Skipped`, which raises `Difference` (or any other exception) or returns the text of a
difference when the implementation disagrees. Handlers live in `tests/conformance/vector_NAME.py` as `handle` and
are registered in `HANDLERS`; a module is imported only when its file is run.

The last line is `N passed, N failed` (and `, N skipped` when any were).
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

Case = dict[str, Any]


class Difference(AssertionError):
    """The implementation disagrees with the recording; the text says how."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """The case does not concern this implementation."""

    reason: str


Handler = Callable[[Case], "Skipped | str | None"]

HANDLERS: Final[dict[str, str]] = {
    "allocator": "tests.conformance.vector_allocator",
    "cel": "tests.conformance.vector_cel",
    "dramanager": "tests.conformance.vector_dramanager",
    "labelselector": "tests.conformance.vector_labelselector",
    "names": "tests.conformance.vector_names",
    "nodeselector": "tests.conformance.vector_nodeselector",
    "quantity": "tests.conformance.vector_quantity",
    "semver": "tests.conformance.vector_semver",
    "strategicmerge": "tests.conformance.vector_strategicmerge",
    "tracker": "tests.conformance.vector_tracker",
}


def expect(what: str, got: object, want: object) -> None:
    """Raise a Difference unless both are equal; a bool never equals a number."""
    if got != want or isinstance(got, bool) != isinstance(want, bool):
        raise Difference(f"{what}: got {got!r}, want {want!r}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the chosen files; 0 when nothing failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.vectors", description=__doc__.split("\n")[0])
    parser.add_argument("--dir", required=True, type=Path, help="directory with the *.jsonl files")
    parser.add_argument("--only", default="", help="comma separated names of files, without .jsonl")
    parser.add_argument("--name", default="", help="run only cases whose name or id contains this text")
    parser.add_argument("--limit", type=int, default=20, help="show at most so many differences (0: all)")
    parser.add_argument("--list-skipped", action="store_true", help="print every skipped case")
    options = parser.parse_args(argv)
    try:
        files = list(_chosen(options.dir, [name for name in options.only.split(",") if name]))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    totals: Counter[str] = Counter()
    for name, path in files:
        totals += _run_file(name, path, options)
    closing = f"{totals['passed']} passed, {totals['failed']} failed"
    print(closing + (f", {totals['skipped']} skipped" if totals["skipped"] else ""))
    return 1 if totals["failed"] else 0


def _chosen(directory: Path, only: list[str]) -> Iterator[tuple[str, Path]]:
    for name in only or sorted(HANDLERS):
        if name not in HANDLERS:
            raise ValueError(f"no handler for vector file {name!r}; known: {', '.join(sorted(HANDLERS))}")
        path = directory / f"{name}.jsonl"
        if path.exists():
            yield name, path
        elif only:
            raise ValueError(f"{path} does not exist")


def handler_of(name: str) -> Handler | None:
    """Return the handler for the lines of a file, or None."""
    module = HANDLERS[name]
    try:
        handler: Handler = importlib.import_module(module).handle
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return None
    return handler


def outcomes(name: str, path: Path, part: str = "") -> Iterator[tuple[str, Skipped | str | None]]:
    """(label, outcome) of every case whose label contains `part`: None where it is as recorded, else the difference."""
    handler = handler_of(name)
    with path.open(encoding="utf-8") as lines:
        cases: list[Case] = [json.loads(line) for line in lines]
    labels = [str(case.get("id") or case.get("name") or f"line {number}") for number, case in enumerate(cases, 1)]
    chosen = [(label, case) for label, case in zip(labels, cases, strict=True) if part in label]
    if handler is None:
        yield from ((label, Skipped("no handler module yet")) for label, _ in chosen)
        return
    yield from ((label, _run_case(handler, case)) for label, case in chosen)


def _run_file(name: str, path: Path, options: argparse.Namespace) -> Counter[str]:
    counts: Counter[str] = Counter()
    shown = 0
    for label, outcome in outcomes(name, path, options.name):
        if isinstance(outcome, Skipped):
            counts["skipped"] += 1
            if options.list_skipped:
                print(f"{name}: {label}: skipped: {outcome.reason}")
        elif outcome is None:
            counts["passed"] += 1
        else:
            counts["failed"] += 1
            shown += 1
            if not options.limit or shown <= options.limit:
                print(f"{name}: {label}: {outcome}")
    print(f"{name}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return counts


def _run_case(handler: Handler, case: Case) -> Skipped | str | None:
    try:
        return handler(case)
    except Difference as difference:
        return str(difference)
    except Exception as error:  # noqa: BLE001 - a crash is a failed case, the run goes on
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return f"crashed: {type(error).__name__}: {error} ({frame.filename}:{frame.lineno} in {frame.name})"


if __name__ == "__main__":
    # The module runs as __main__, handlers import it by name: there must be one Difference class.
    from tests.conformance.vectors import main as _main

    raise SystemExit(_main())
