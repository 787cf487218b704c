"""Drive kubedra and a real control plane with random kubectl commands, and compare outputs and objects.

    python -m tools.fuzz.kubectl --steps 5000 [--seed S]      play sequences until so many commands were run
    python -m tools.fuzz.kubectl --seed S --only NUMBER       play one sequence, with its outputs

kubectl, kube-apiserver, kube-controller-manager and etcd of the emulated release must be on PATH. A sequence ends at
its first difference, which is printed with its commands. The exit code is 1 if one was found.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.fuzz.kubectl.planes import BINARIES, start_planes
from tools.fuzz.kubectl.play import Difference, Player, Report, players
from tools.fuzz.kubectl.sequences import Sequence, sequences


def main() -> int:
    given = _parser().parse_args()
    real = () if given.twice_ours else [name for name in BINARIES if not given.alone or "manager" not in name]
    needed = ("kubectl", *real)
    if missing := [name for name in needed if shutil.which(name) is None]:
        print(f"not on PATH: {', '.join(missing)}", file=sys.stderr)
        return 2
    kubectl = shutil.which("kubectl")
    assert kubectl is not None
    if given.directory is not None:
        given.directory.mkdir(parents=True, exist_ok=True)
    report, started = Report(), time.monotonic()
    with (
        tempfile.TemporaryDirectory(dir=given.directory) as temporary,
        start_planes(Path(temporary), twice_ours=given.twice_ours, controllers=not given.alone) as planes,
        players(planes, Path(temporary), given.players, kubectl, given.loop) as working,
    ):
        first = given.first if given.only is None else given.only
        found = sequences(given.seed, given.length, first)
        chosen = found if given.only is None else itertools.islice(found, 1)
        _play_all(working, chosen, report, given.steps)
    _print_summary(report, given.seed, time.monotonic() - started)
    return 1 if report.differences else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz.kubectl", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--steps", type=int, default=1000, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, metavar="NUMBER", help="number of the first sequence")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="play one sequence")
    parser.add_argument("--length", type=int, default=25, metavar="N", help="commands of a sequence")
    parser.add_argument("--players", type=int, default=4, metavar="N", help="sequences at the same time")
    parser.add_argument("--loop", metavar="FILE", help="a program built from loop.go, ten times as fast as kubectl")
    parser.add_argument("--directory", type=Path, metavar="DIR", help="where the files of a run are")
    parser.add_argument("--alone", action="store_true", help="compare the API servers without controllers")
    parser.add_argument("--twice-ours", action="store_true", help="compare kubedra with itself")
    return parser


def _play_all(working: list[Player], chosen: Iterator[Sequence], report: Report, steps: int) -> None:
    """Play sequences with all players until so many steps were made; Ctrl-C ends a run with its report."""
    ended, lock = threading.Event(), threading.Lock()
    signal.signal(signal.SIGINT, lambda *_: ended.set())

    def work(player: Player) -> None:
        while report.steps < steps and not ended.is_set():
            with lock:
                sequence = next(chosen, None)
            if sequence is None:
                return
            before = len(report.differences)
            player.play(sequence, report)
            for difference in report.differences[before:]:
                if difference.sequence is sequence:
                    _print(difference)
            if sequence.number % 20 == 0:
                print(f"… {report.steps} steps, {len(report.differences)} differences", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(len(working)) as pool:
        for done in [pool.submit(work, player) for player in working]:
            done.result()


def _print(difference: Difference) -> None:
    lines = [f"== sequence {difference.sequence.number}, step {difference.number}: {difference.command or 'objects'}"]
    lines += [f"    {line[:900]}" for line in difference.lines[:6]]
    lines += [f"  before it: {command}" for command in difference.sequence.commands[: difference.number]]
    command = difference.command
    lines += [f"  {name}: {text}" for name, text in (command.files if command is not None else {}).items()]
    print("\n".join(lines), flush=True)


def _print_summary(report: Report, seed: int, seconds: float) -> None:
    codes = ", ".join(f"{code}: {count}" for code, count in sorted(report.codes.items()))
    verbs = ", ".join(f"{verb} {count}" for verb, count in report.verbs.most_common())
    print(f"{report.steps} steps in {report.sequences} sequences of seed {seed} in {seconds:.0f} s; exit codes {codes}")
    print(f"commands: {verbs}")
    print(f"{len(report.differences)} sequences with a difference")


if __name__ == "__main__":
    sys.exit(main())
