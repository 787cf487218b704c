"""Compare the speed of two revisions of kubedra.

    python -m benchmarks.compare BASE [HEAD] [--rounds 5] [--objects 2000] [--only create,get,pods] [--markdown]

BASE and HEAD are revisions of git or directories; HEAD is the working tree unless it is given. Each round starts one
server of each revision and measures every row on it; the revisions take turns in going first. A row prints HEAD's time
divided by BASE's, as the median over the rounds with the lowest and the highest ratio: above 1, HEAD is slower.

Wall time varies with other processes on the machine, processor time of the server less, and the interpreter's
instructions of one request not at all. The exit status is 1 if a row has become slower by more than 1.3 times in
both times, or if memory, the start or the instructions have; smaller differences are only printed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import request_path
from benchmarks.scheduling import COMPONENTS, Processes, child_pids, create_pods, prepare, wait_volumes
from benchmarks.server import NAMESPACE, rows
from benchmarks.wire import Connection, request
from controllers.runtime.client import Client
from controllers.runtime.http import HttpTransport
from kubedra.kubeconfig.reader import read_kubeconfig

#: A row that has become slower by more than this factor is a failure.
GROSS = 1.3
VERBS = ("create", "get", "patch", "update", "apply", "delete", "list")
START, MEMORY, PODS = "start, seconds", "memory after the run", "pods with claims bound, 100 nodes"
_NODES, _PODS = 100, 350


Measured = dict[str, tuple[float, float]]
"""Wall and processor time by row, in any unit that both revisions share; for `MEMORY` the same bytes twice."""


@contextlib.contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """Yield a directory with a revision's files, which is removed at the end unless it existed."""
    if Path(revision).is_dir():
        yield Path(revision).resolve()
        return
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary) / "tree"
        _git("worktree", "add", "--quiet", "--detach", str(directory), revision)
        try:
            yield directory
        finally:
            _git("worktree", "remove", "--force", str(directory))


def _git(*args: str) -> None:
    done = subprocess.run(["git", *args], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"compare: {done.stderr.strip().splitlines()[-1]}")


def _environment(tree: Path) -> dict[str, str]:
    """Return the environment of a revision's programs. Both revisions have bytecode from their second start on."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(tree)}


@contextlib.contextmanager
def run_server(tree: Path, *flags: str) -> Iterator[tuple[int, Path]]:
    """Run a revision's server on a SQLite file with synced commits. Yield its process id and kubeconfig."""
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        command = [sys.executable, "-P", "-m", "apiserver", "--announce", "--attached", "--port=0"]
        with (directory / "log").open("w+") as log:
            process = subprocess.Popen(
                [*command, "--storage=sqlite", "--durability=full", f"--data-dir={directory / 'data'}", *flags],
                env=_environment(tree), cwd=directory, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
            assert process.stdout is not None
            if not process.stdout.readline():
                log.seek(0)
                raise SystemExit(f"compare: the server of {tree} did not start: {log.read().strip()}")
            try:
                yield process.pid, directory / "data" / "kubeconfig"
            finally:
                process.terminate()
                process.communicate()


async def measure_requests(url: str, pid: int, objects: int, only: Sequence[str]) -> Measured:
    """Measure the rows of `benchmarks.server` on one server."""
    connection = await Connection.open(url)
    await connection.ask(request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}))
    connection.close()
    found: Measured = {}
    for name, row in rows(url, objects).items():
        # The first two rows create the objects of the others.
        if not only or name.startswith(("create claim", *only)):
            used, began = Processes([pid]), time.perf_counter()
            await row()
            found[name] = (time.perf_counter() - began, used.used()[0])
    memory = Processes([pid]).memory()[0]
    found[MEMORY] = (memory, memory)
    return found


async def measure_pods(kubeconfig: Path, pid: int) -> tuple[float, float]:
    """Return wall and processor time until all pods are bound."""
    client = Client(HttpTransport(read_kubeconfig(kubeconfig)), user_agent="benchmark")
    await prepare(client, "claims", _NODES, _PODS)
    await wait_volumes(client)
    used, began = Processes([pid, *child_pids(pid)]), time.perf_counter()
    await create_pods(client, "claims", _PODS)
    figures = time.perf_counter() - began, sum(used.used())
    await client.close()
    return figures


def measure(tree: Path, objects: int, only: Sequence[str]) -> Measured:
    """Measure all rows of a revision once."""
    began = time.perf_counter()
    with run_server(tree) as (pid, kubeconfig):
        started = time.perf_counter() - began
        found = {START: (started, started)}
        found |= asyncio.run(measure_requests(read_kubeconfig(kubeconfig).server, pid, objects, only))
    if not only or any(PODS.startswith(word) for word in only):
        with run_server(tree, f"--controllers={COMPONENTS}", "--components-apart") as (pid, kubeconfig):
            found[PODS] = asyncio.run(measure_pods(kubeconfig, pid))
    return found


def count_instructions(tree: Path, verb: str) -> int | None:
    """Return the interpreter instructions of one request, or None if a revision has another structure."""
    done = subprocess.run(
        [sys.executable, "-P", request_path.__file__, "--verb", verb],
        env=_environment(tree), capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = re.search(r"(\d+) instructions", done.stdout)
    return int(found[1]) if found else None


def spread(pairs: Sequence[tuple[float, float]]) -> tuple[float, str]:
    """Return the median ratio of the pairs, and a text with the lowest and the highest."""
    ratios = sorted(head / base if base else 1.0 for base, head in pairs)
    middle = statistics.median(ratios)
    return middle, f"{middle:.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f})"


def print_table(header: Sequence[str], lines: Sequence[Sequence[str]], *, markdown: bool) -> None:
    if markdown:
        for line in (header, ["---"] * len(header), *lines):
            print(f"| {' | '.join(line)} |")
        return
    widths = [max(len(line[column]) for line in (header, *lines)) for column in range(len(header))]
    for line in (header, *lines):
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def report_rows(measured: Sequence[tuple[Measured, Measured]], *, markdown: bool) -> list[str]:
    """Print the rows of all rounds. Return the names of those that became slower by more than `GROSS`."""
    gross, lines = [], []
    for name in measured[0][0]:
        wall, shown = spread([(base[name][0], head[name][0]) for base, head in measured])
        processor, of_processor = spread([(base[name][1], head[name][1]) for base, head in measured])
        lines.append([name, shown, "" if name in (START, MEMORY) else of_processor])
        gross += [name] if min(wall, processor) > GROSS else []
    print_table(["row, HEAD / BASE", "wall time", "processor time"], lines, markdown=markdown)
    return gross


def report_instructions(base: Path, head: Path, *, markdown: bool) -> list[str]:
    """Print the instructions of one request of each verb. Return the verbs with more than `GROSS` times as many."""
    gross, lines = [], []
    for verb in VERBS:
        before, after = count_instructions(base, verb), count_instructions(head, verb)
        ratio = after / before if before and after else 1.0
        lines.append([f"one {verb}", str(before or "unknown"), str(after or "unknown"), f"{ratio:.2f}"])
        gross += [f"instructions of one {verb}"] if ratio > GROSS else []
    print_table(["instructions", "BASE", "HEAD", "ratio"], lines, markdown=markdown)
    return gross


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("base", help="a revision of git, or a directory")
    parser.add_argument("head", nargs="?", default=".", help="a revision or directory; default: the working tree")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--objects", type=int, default=2000)
    parser.add_argument("--only", default="", help="only rows whose names begin with one of these, separated by commas")
    parser.add_argument("--markdown", action="store_true", help="print the tables for a pull request")
    args = parser.parse_args()
    only = tuple(filter(None, args.only.split(",")))
    with checkout(args.base) as base, checkout(args.head) as head:
        measured = []
        for tree in (base, head):
            with run_server(tree):
                pass  # a fresh checkout compiles its modules once
        for number in range(args.rounds):
            first, second = (base, head) if number % 2 == 0 else (head, base)
            taken = {tree: measure(tree, args.objects, only) for tree in (first, second)}
            measured.append((taken[base], taken[head]))
        gross = report_rows(measured, markdown=args.markdown)
        print(flush=True)
        gross += report_instructions(base, head, markdown=args.markdown)
    if gross:
        print(f"\nslower by more than {GROSS} times: {', '.join(gross)}")
    return int(bool(gross))


if __name__ == "__main__":
    sys.exit(main())
