"""Check by mutation whether a test fails when the code is wrong.

    python -m tools.mutation PACKAGE… [--sample N] [--seed S] [--seconds T] [--survivors FILE] [--verbose]

Each mutant is one small change of a package's code (changes.py). The package's tests that reach it (reach.py) run, the
fastest first, until one fails (trial.py). Survivors are printed with their place and both lines: either a rule lacks a
test, or the mutant is equivalent and belongs into equivalent.txt with the reason. Servers of tests are forked
(servers.py) and contain the mutant; other processes of tests do not.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tests.support.postgres import Database
from tests.support.wire import ROOT
from tools.mutation import trial
from tools.mutation.changes import Mutant, known, sample, stale
from tools.mutation.reach import CACHE, load_reach
from tools.mutation.trial import Verdict, judge

_WRITTEN = "tests/conformance/test_written_conversations.py"
_RECORDED = "tests/fuzz/test_recorded_answers.py"
#: The files of tests/http with a server in the test's process.
_SERVED = tuple(
    f"tests/http/test_{name}.py"
    for name in (
        "account_keys", "admission_configuration", "admission_from_files", "admission_plugins", "admission_webhooks",
        "conversion_webhooks", "custom_resources", "faults", "feature_gates", "flags", "handlers", "impersonation",
        "issued_certificates", "live_catalog", "own_objects", "requests", "scale", "service_network",
        "webhooks_of_unstored", "wire_answers", "wire_documents", "wire_protobuf",
    )
)  # fmt: skip
#: Tests of explanations run the scheduler and the allocator.
_EXPLAINING = tuple(
    f"tests/controllers/test_{name}.py"
    for name in ("explain", "explain_groups", "explain_reasons", "explain_starting", "simulate", "simulate_more")
)
#: The tests of a package. They need nothing outside the repository.
TESTS: dict[str, tuple[str, ...]] = {
    "apiserver/api": (
        "tests/codec", "tests/patch", "tests/selectors", "tests/cel", "tests/types", "tests/protobuf",
        "tests/validation", "tests/resources", _RECORDED,
    ),
    "apiserver/cel": ("tests/cel", "tests/registry/test_admission.py", _WRITTEN),
    "apiserver/registry": (
        "tests/registry",
        "tests/resources",
        "tests/patch",
        "tests/validation",
        _WRITTEN,
        _RECORDED,
        *_SERVED,
    ),
    "apiserver/resources": ("tests/resources", "tests/validation", _WRITTEN, _RECORDED, *_SERVED),
    "apiserver/storage": ("tests/storage", "tests/registry", _WRITTEN, _RECORDED),
    "apiserver/admission": ("tests/admission", "tests/registry", "tests/authorization", _WRITTEN, _RECORDED, *_SERVED),
    "apiserver/authorization": ("tests/authorization", _WRITTEN),
    "controllers/explain": _EXPLAINING,
    "controllers/allocator": ("tests/allocator", "tests/scheduler", *_EXPLAINING),
    "controllers/scheduler": ("tests/scheduler", *_EXPLAINING),
    "controllers": (
        "tests/claims",
        "tests/runtime",
        "tests/controllers",
        "tests/node",
        "tests/scheduler",
        "tests/authorization/test_aggregated_roles.py",
    ),
}  # fmt: skip


def tests_of(package: str) -> tuple[str, ...]:
    """Return the tests of a package: those of the longest matching name in TESTS."""
    return tuple(test for test in TESTS[_name_of(package)] if (ROOT / test).exists())


def _name_of(package: str) -> str:
    """Return the longest name in TESTS that contains a package or file."""
    names = [name for name in TESTS if package == name or package.startswith(name + "/")]
    if not names:
        raise SystemExit(f"mutation: no tests are named for {package}; there are: {', '.join(TESTS)}")
    return max(names, key=len)


def _others(package: str) -> tuple[str, ...]:
    """Return the nested packages with tests of their own; they are not sampled with this one."""
    return tuple(name for name in TESTS if name.startswith(package + "/") and _name_of(name) != _name_of(package))


class KilledMutants:
    """The killed mutants, saved so that a later run tries only the others.

    An entry holds for one state of its file.
    """

    def __init__(self) -> None:
        self._file = CACHE / "killed"
        self._killed = set(self._file.read_text().splitlines()) if self._file.exists() else set()

    def __contains__(self, mutant: Mutant) -> bool:
        return self._name(mutant) in self._killed

    def add(self, mutant: Mutant) -> None:
        """Add a mutant; forked processes call this, too."""
        with self._file.open("a") as file:
            file.write(f"{self._name(mutant)}\n")
        self._killed.add(self._name(mutant))

    @staticmethod
    def _name(mutant: Mutant) -> str:
        state = (ROOT / mutant.path).read_bytes() + ast.dump(mutant.tree).encode()
        return hashlib.sha256(state).hexdigest()[:24]


def run(package: str, number: int, seed: int, *, verbose: bool) -> list[Mutant]:
    """Try mutants of a package, print the outcomes and return the survivors."""
    reach = load_reach(tests_of(package))
    chosen = sample(package, number, seed, _others(package))
    killed_before = KilledMutants()
    began = time.monotonic()

    def on_verdict(mutant: Mutant, verdict: Verdict) -> None:
        if verdict.killed:
            killed_before.add(mutant)
        if not verdict.killed:
            print(f"{mutant}\n    {verdict.tests} tests, {verdict.seconds:.1f} s", flush=True)
        elif verbose:
            print(f"{mutant}\n    killed by {verdict.by}, {verdict.seconds:.1f} s", flush=True)

    verdicts = judge([mutant for mutant in chosen if mutant not in killed_before], reach, on_verdict)
    survivors = [mutant for mutant in chosen if mutant not in KilledMutants()]
    cost = [verdict.seconds for verdict in verdicts] or [0.0]
    killed = len(chosen) - len(survivors)
    print(
        f"{package}: {killed} of {len(chosen)} killed ({100 * killed / max(len(chosen), 1):.0f} %), seed {seed}; "
        f"{median(cost):.2f} s of CPU a mutant ({sum(cost):.0f} s in all), {time.monotonic() - began:.0f} s",
        flush=True,
    )
    return survivors


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("packages", nargs="+", metavar="PACKAGE", help="a directory or file, as apiserver/registry")
    parser.add_argument("--sample", type=int, default=60, metavar="N", help="mutants of each package (default 60)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--seconds", type=float, default=trial.ENOUGH, metavar="T", help="tests of so many seconds judge (default 6)"
    )
    parser.add_argument("--survivors", type=Path, metavar="FILE", help="write the survivors there, too")
    parser.add_argument("--verbose", action="store_true", help="say which test killed which mutant, too")
    options = parser.parse_args(arguments)
    if gone := stale(known()):
        raise SystemExit(f"mutation: equivalent.txt names lines that are not there any more: {'; '.join(gone)}")
    trial.ENOUGH = options.seconds
    os.environ["HYPOTHESIS_PROFILE"] = "first"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("mutation: ended; what was killed is kept"))  # with its Postgres
    survived: list[Mutant] = []
    with tempfile.TemporaryDirectory(prefix="kubedra-mutation-") as place, Database() as database:
        os.environ["KUBEDRA_TEST_POSTGRES"] = database.url
        os.environ["TMPDIR"] = tempfile.tempdir = place
        for package in options.packages:
            survived += run(package.rstrip("/"), options.sample, options.seed, verbose=options.verbose)
    if options.survivors:
        options.survivors.write_text("".join(f"{mutant}\n" for mutant in survived))
    return 0


if __name__ == "__main__":
    sys.exit(main())
