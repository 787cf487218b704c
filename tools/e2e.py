"""Runs Kubernetes' end-to-end specs of docs/data/e2e.json with a compiled suite.

    python -m tools.e2e PATH/e2e.test [--kubectl PATH] [--match REGEX] [--report DIR]

The suite runs against a control plane of its own without `--run`. Specs that fail there run again with `--run`, because
they need the exit codes of container commands. Prints the specs that fail on both. Exit code: 0 if all pass, 1 if some
fail, 2 for invalid arguments.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kubedra import Client

ROOT: Final = Path(__file__).resolve().parents[1]
SPECS: Final = ROOT / "docs" / "data" / "e2e.json"
NODES: Final = 3
#: Images that specs expect to be missing.
MISSING_IMAGES: Final = "gcr.io/google_samples/gb-redisslave:nonexistent, webserver:404"


def read_specs(match: str) -> list[str]:
    """Return the names of the passing Conformance specs that match. Raise ValueError."""
    try:
        pattern = re.compile(match)
    except re.error as error:
        raise ValueError(f"--match {match}: {error}") from None
    specs = [name for name in json.loads(SPECS.read_text())["conformance"]["pass"] if pattern.search(name)]
    if not specs:
        raise ValueError(f"--match {match}: no spec in {SPECS.relative_to(ROOT)} matches")
    return specs


def build_command(suite: Path, kubectl: Path, kubeconfig: Path, specs: Sequence[str], report: Path) -> list[str]:
    """Return the command that runs specs and writes a report in JSON."""
    focus = "|".join(re.escape(name) for name in specs)
    return [
        str(suite), f"--kubeconfig={kubeconfig}", "--provider=skeleton", f"--kubectl-path={kubectl}",
        f"--num-nodes={NODES}", f"--ginkgo.focus=^(?:{focus})$", f"--ginkgo.json-report={report}",
    ]  # fmt: skip


def read_report(report: Path) -> dict[str, bool]:
    """Return whether each spec of a report passed, by name. Skipped specs are left out. Raise ValueError."""
    try:
        suites: list[Any] = json.loads(report.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"the suite wrote no report: {error}") from None
    found = {}
    for suite in suites:
        for spec in suite.get("SpecReports") or ():
            if spec.get("LeafNodeType") == "It" and spec.get("State") not in ("skipped", "pending"):
                name = " ".join([*(spec.get("ContainerHierarchyTexts") or ()), spec.get("LeafNodeText", "")])
                found[name] = spec["State"] == "passed"
    return found


@contextmanager
def control_plane(directory: Path, *, run: bool) -> Iterator[Path]:
    """Start a control plane as the specs need it, and yield the kubeconfig of its administrator."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    kubedra, files, data = [sys.executable, "-m", "kubedra"], directory / "credentials", directory / "data"
    url = f"https://127.0.0.1:{port}"
    subprocess.run([*kubedra, "credentials", "--dir", files, "--server", url], check=True)
    flags = [
        "--detach", f"--data-dir={data}", f"--port={port}", f"--nodes={NODES}", "--authorization-mode=Node,RBAC",
        f"--token-auth-file={files}/tokens.csv", f"--tls-cert-file={files}/tls.crt",
        f"--tls-private-key-file={files}/tls.key", "--enable-admission-plugins=ServiceAccount",
    ]  # fmt: skip
    try:
        subprocess.run([*kubedra, "up", *flags, *(["--run"] if run else [])], check=True)
        change = {"metadata": {"annotations": {"kubedra.dev/missing-images": MISSING_IMAGES}}}
        with Client.from_kubeconfig(files / "kubeconfig") as client:
            for number in range(1, NODES + 1):
                client.wait(f"node/node-{number}", "condition=Ready")
                client.patch(f"node/node-{number}", change)
        yield files / "kubeconfig"
    finally:
        subprocess.run([*kubedra, "down", f"--data-dir={data}"], check=False)


def run_specs(suite: Path, kubectl: Path, specs: Sequence[str], reports: Path, *, run: bool) -> dict[str, bool]:
    """Run specs on a new control plane; return whether each passed. Raise ValueError without a report."""
    report = reports / f"{'run' if run else 'emulated'}.json"
    with tempfile.TemporaryDirectory() as directory, control_plane(Path(directory), run=run) as kubeconfig:
        subprocess.run(build_command(suite, kubectl, kubeconfig, specs, report), check=False)
    return read_report(report)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the specs and print the result."""
    parser = argparse.ArgumentParser(prog="python -m tools.e2e", description=__doc__, allow_abbrev=False)
    parser.add_argument("suite", type=Path, metavar="E2E.TEST", help="compiled test/e2e of Kubernetes 1.36")
    parser.add_argument("--kubectl", default="kubectl", metavar="PATH", help="kubectl of 1.36 (default: from PATH)")
    parser.add_argument("--match", default="", metavar="REGEX", help="only specs whose name matches")
    parser.add_argument("--report", type=Path, metavar="DIR", help="keep the suite's reports in this directory")
    args = parser.parse_args(arguments)
    suite, kubectl = shutil.which(args.suite.resolve()), shutil.which(args.kubectl)
    if suite is None:
        parser.error(f"{args.suite}: no such program")
    if kubectl is None:
        parser.error(f"--kubectl {args.kubectl}: no such program")
    try:
        specs = read_specs(args.match)
    except ValueError as error:
        parser.error(str(error))
    with tempfile.TemporaryDirectory() as temporary:
        reports = args.report or Path(temporary)
        reports.mkdir(parents=True, exist_ok=True)
        failed = specs
        for run in (False, True):
            try:
                passed = run_specs(Path(suite), Path(kubectl), failed, reports.resolve(), run=run)
            except ValueError as error:
                parser.error(f"{args.suite}: {error}")
            failed = [name for name in failed if not passed.get(name)]
            if not failed:
                break
    for name in failed:
        print(f"failed: {name}")
    print(f"{len(specs) - len(failed)} of {len(specs)} specs pass")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
