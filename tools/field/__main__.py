"""Run another project's tests against kubedra, and against the real control plane.

    python -m tools.field PROJECT CHECKOUT             run the project's suites against kubedra
    python -m tools.field PROJECT CHECKOUT --beside    run them against the real one, too, and compare

The projects are in tools/field/projects.toml. Go suites use envtest: `go` must be on PATH. Suites of other languages
get a control plane with one node. `--beside` needs kube-apiserver, kube-controller-manager, kube-scheduler and etcd of
the emulated release on PATH. Exit code: 0 if all tests pass (with `--beside`: if no result differs), 1 if not, 2 for
invalid arguments.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.field.planes import REAL
from tools.field.projects import Project, read_projects
from tools.field.suites import Result, run_project


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suites and print the results."""
    projects = read_projects()
    args = _parser().parse_args(arguments)
    if args.project not in projects:
        _parser().error(f"{args.project}: no such project; known: {', '.join(sorted(projects))}")
    project = projects[args.project]
    if missing := _missing(project, args):
        _parser().error(missing)
    with tempfile.TemporaryDirectory(prefix="kubedra-field-") as temporary:
        work = args.work or Path(temporary)
        results = {}
        for server in ("kube-apiserver", "kubedra") if args.beside else ("kubedra",):
            results[server] = run_project(project, args.checkout.resolve(), work.resolve(), server, args.suite)
            print(describe(project, server, results[server]), flush=True)
    if not args.beside:
        return 1 if results["kubedra"].failed else 0
    different = compare(results["kube-apiserver"], results["kubedra"])
    print("\n".join(different) or "no result differs")
    return 1 if different else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.field", description=(__doc__ or "").split("\n")[0], allow_abbrev=False
    )
    parser.add_argument("project", metavar="PROJECT", help="a name in tools/field/projects.toml")
    parser.add_argument("checkout", type=Path, metavar="CHECKOUT", help="directory of the project's source")
    parser.add_argument("--beside", action="store_true", help="run against the real control plane, too, and compare")
    parser.add_argument(
        "--suite", action="append", default=[], metavar="NAME", help="only this suite of the project; repeatable"
    )
    parser.add_argument("--work", type=Path, metavar="DIR", help="keep compiled tests, reports and logs here")
    return parser


def _missing(project: Project, args: argparse.Namespace) -> str:
    """Return what is missing for a run, or nothing."""
    if not args.checkout.is_dir():
        return f"{args.checkout}: no such directory"
    unknown = [name for name in args.suite if name not in project.suites]
    if unknown:
        return f"--suite {unknown[0]}: {project.name} has {', '.join(project.suites)}"
    needed = [*(("go",) if project.language == "go" and args.work is None else ()), *(REAL if args.beside else ())]
    missing = [name for name in needed if shutil.which(name) is None]
    return f"not on PATH: {', '.join(missing)}" if missing else ""


def describe(project: Project, server: str, result: Result) -> str:
    """Return a line with the counts, and one per failed test."""
    counts = f"{len(result.passed)} passed, {len(result.failed)} failed, {len(result.skipped)} skipped"
    lines = [f"{project.name} on {server}: {counts}, {result.seconds:.1f} s"]
    return "\n".join([*lines, *(f"  failed: {name}" for name in sorted(result.failed))])


def compare(theirs: Result, ours: Result) -> list[str]:
    """Return a line for each test whose result differs."""
    names = sorted({*theirs.outcomes, *ours.outcomes})
    pairs = ((name, theirs.outcomes.get(name, "missing"), ours.outcomes.get(name, "missing")) for name in names)
    return [f"{name}: {want} on kube-apiserver, {got} on kubedra" for name, want, got in pairs if want != got]


if __name__ == "__main__":
    sys.exit(main())
