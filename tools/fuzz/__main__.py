"""Send mutated requests to a server of its own.

    python -m tools.fuzz [--requests N] [--seed S]        send N requests of a seed
    python -m tools.fuzz --seed S --only NUMBER           send one of them
    python -m tools.fuzz --replay FILE                    send a request that a run saved

docs/damage.md has the rules. Every violation is printed with the command that reproduces it; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Final

from tools.fuzz.runner import Finding, Report, Run, server
from tools.fuzz.whole import check_whole
from tools.fuzz.wire import WireCase

#: Requests between two lines of progress that go to a file.
_SELDOM: Final = 50_000


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.fuzz", description="Mutated requests against a server of their own."
    )
    parser.add_argument("--requests", type=int, default=20_000, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, metavar="NUMBER", help="begin with this one")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="send one request of the seed")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="send a request that a run saved")
    parser.add_argument(
        "--keep",
        type=Path,
        default=Path(tempfile.gettempdir()),
        metavar="DIR",
        help="the directory for requests that broke a rule",
    )
    given = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary) / "server"
        with server(directory) as child:
            run = Run(child, given.seed, progress=_progress)
            # Ctrl-C ends a long run with its report.
            signal.signal(signal.SIGINT, lambda *_: setattr(run, "interrupted", True))
            if given.replay is not None:
                kept = json.loads(given.replay.read_text())
                case = WireCase(kept["number"], "replay", tuple(map(b64decode, kept["pieces"])), "read")
                run.send(case)
                report = run.run_requests(range(0))
            elif given.only is not None:
                report = run.run_requests(range(given.only, given.only + 1))
            else:
                report = run.run_requests(range(given.first, given.first + given.requests))
            wrong = check_whole(child)
    report.findings += [Finding("the server is whole afterwards", None, line) for line in wrong]
    _print_report(report, given.seed, given.keep, time.monotonic() - started)
    return 1 if report.findings else 0


def _progress(done: int, line: str) -> None:
    """Show the progress: continuously on a terminal, and sometimes in a log file, for an interrupted run."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
    elif done % _SELDOM == 0:
        print(line, file=sys.stderr, flush=True)


def _print_report(report: Report, seed: int, keep: Path, seconds: float) -> None:
    statuses = ", ".join(f"{status}: {count}" for status, count in sorted(report.statuses.items()))
    print(f"{report.requests} requests of seed {seed} in {seconds:.0f} s; answers {statuses}")
    memory = " → ".join(f"{size >> 20}" for size in report.memory)
    print(
        f"memory after each quarter {memory} MiB; the loop's longest work while /readyz waited"
        f" {report.stall * 1000:.0f} ms, at request {report.stalled}"
    )
    for finding in report.findings:
        print(f"\nBROKEN: {finding.rule}\n{finding.detail}")
        if finding.case is None:
            continue
        number = finding.case.number
        pieces = finding.case.pieces if isinstance(finding.case, WireCase) else (finding.case.data,)
        file = keep / f"kubedra-fuzz-{seed}-{number}.json"
        file.write_text(json.dumps({"number": number, "pieces": [b64encode(piece).decode() for piece in pieces]}))
        print(f"  {b''.join(pieces)[:1500]!r}")
        print(f"  alone: python -m tools.fuzz --replay {file}")
        print(f"  with all before it: python -m tools.fuzz --seed {seed} --requests {number + 1}")
    if not report.findings:
        print("no rule was broken")


if __name__ == "__main__":
    sys.exit(main())
