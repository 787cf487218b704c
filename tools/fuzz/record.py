"""Record the answers of a real kube-apiserver to single fields and to lives of objects.

    python -m tools.fuzz.record [--lives N] [--fields N]

kube-apiserver and etcd of the emulated release must be on PATH. `test_recorded_answers.py` reads the record. A request
is printed and not recorded if kubedra answers it differently, immediately or in another order.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import urlsplit

from apiserver.registry.definition.resource import Resource, Version
from tests.conformance.compare import differences
from tests.support.server import HeldTime, serve
from tools.fuzz.beside import ALL_GATES, APART, FLAGS, TOKEN, Server, make_seeds, start_both
from tools.fuzz.fields import FieldCase, cases
from tools.fuzz.kept import digest, play_life, write_fields, write_lives
from tools.fuzz.lives import Life, lives

#: Flags by profile.
PROFILES: Final = {"default": (), "all": ALL_GATES}
_OURS: Final = "resource.k8s.io"
#: Cases sent per case kept.
_DRAWN: Final = 5
#: The parts in which two errors of one rule differ.
_VALUE: Final = re.compile(r'"[^"]*"|\d+')
#: A case with the answers of the real server and of ours.
Answered = tuple[FieldCase, dict[str, Any], dict[str, Any]]


@contextlib.contextmanager
def alone(profile: str) -> Iterator[Server]:
    """Start a server in this process with an object of every kind; later writes have later times."""
    with tempfile.TemporaryDirectory() as directory:
        tokens = Path(directory) / "tokens.csv"
        tokens.write_text(f'{TOKEN},admin,admin,"system:masters"\n')
        with (
            serve(*FLAGS, f"--token-auth-file={tokens}", *PROFILES[profile], time=HeldTime()) as running,
            contextlib.closing(Server(http.client.HTTPConnection(urlsplit(running.url).netloc))) as server,
        ):
            make_seeds(server)
            running.time.advance(2)
            yield server


def _count_lives(resource: Resource, version: Version) -> int:
    """Return the number of lives of a kind: most for the kinds that kubedra is about, in their first version."""
    first = version is resource.versions[0]
    if resource.group == _OURS:
        return 4 if first else 1
    return 3 if resource.plural == "pods" else 2 if first else 0


def _count_cases(kind: str, most: int) -> int:
    """Return the number of cases to keep: most for the kinds that kubedra is about."""
    return most * (6 if kind.startswith(f"{_OURS}/v1 ") or kind == "v1 pods" else 1)


def _draw_cases(profile: str, most: int, random: Random) -> list[FieldCase]:
    """Choose random cases of every kind, more than are kept."""
    found: dict[str, list[FieldCase]] = {}
    for case in cases():
        api_version, plural, _ = case.field.split(" ", 2)
        if plural not in APART:
            found.setdefault(f"{api_version} {plural}", []).append(case)
    chosen = []
    for kind, of_kind in found.items():
        ours = _OURS in kind or kind == "v1 pods"
        if profile == "all" and not ours:
            continue
        drawn = random.sample(of_kind, min(_DRAWN * _count_cases(kind, most), len(of_kind)))
        # Metadata comes first, so that it is kept.
        metadata = [case for case in of_kind if _kind(case)[1].split(" ")[1] == "metadata"]
        chosen += metadata + [case for case in drawn if case not in metadata]
    return chosen


def _select_informative(answers: list[Answered], most: int) -> list[Answered]:
    """Return the most informative cases: the first of each error and of each accepted field, then others."""
    found: dict[str, list[tuple[int, int, Answered]]] = {}
    seen: set[tuple[str, str]] = set()
    for number, answered in enumerate(answers):
        case, theirs, _ = answered
        kind, field = _kind(case)
        message = (theirs["body"].get("message") or "") if theirs["status"] >= 400 else ""
        sign = (kind, _VALUE.sub("", " ".join(message)) or field)
        found.setdefault(kind, []).append((1 if sign in seen else 0, number, answered))
        seen.add(sign)
    return [
        answered
        for kind, of_kind in found.items()
        for _, _, answered in sorted(of_kind, key=lambda each: each[:2])[: _count_cases(kind, most)]
    ]


def _kind(case: FieldCase) -> tuple[str, str]:
    api_version, plural, field = case.field.split(" ", 2)
    return f"{api_version} {plural}", f"{case.method} {field}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz.record", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--lives", type=int, default=1, metavar="N", help="times as many lives")
    parser.add_argument("--fields", type=int, default=30, metavar="N", help="cases of a kind")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    fields: dict[str, dict[str, dict[str, list[tuple[Any, str]]]]] = {}
    for profile, flags in PROFILES.items():
        asked = _draw_cases(profile, given.fields, Random(f"{given.seed}/{profile}"))
        with tempfile.TemporaryDirectory() as temporary, start_both(Path(temporary), *flags) as (theirs, ours):
            if profile == "default":
                chosen = lives(given.seed, 0, lambda *of: _count_lives(*of) * given.lives)
                _write_lives([_compare_life(theirs, ours, life) for life in chosen])
            answers = [(case, theirs.asked(case), ours.asked(case)) for case in asked]
        for case, wanted, got in answers:
            if lines := list(differences(wanted, got)):
                _tell(f"{profile}: {case.method} {case.field} = {json.dumps(case.value)}", lines)
        answers = _select_informative([each for each in answers if each[1] == each[2]], given.fields)
        with alone(profile) as again:
            kept = []
            for case, wanted, _ in reversed(answers):
                if digest(again.asked(case)) == digest(wanted):
                    kept.append((case, digest(wanted)))
        print(f"{profile}: {len(kept)} of {len(answers)} cases are kept", file=sys.stderr)
        of_profile = fields.setdefault(profile, {})
        for case, answer in reversed(kept):
            kind, field = _kind(case)
            of_profile.setdefault(kind, {}).setdefault(field, []).append((case.value, answer))
    write_fields(fields)
    return 0


def _compare_life(theirs: Server, ours: Server, life: Life) -> tuple[Life, list[str]]:
    """Return the answers up to the first difference."""
    answers = []
    for step, wanted, got in zip(life.steps, play_life(theirs, life), play_life(ours, life), strict=True):
        if lines := list(differences(wanted, got)):
            body = json.dumps(step.body)[:600]
            _tell(f"{life.of} {life.number}: {step.method} {step.target} {step.media} {step.accept} {body}", lines)
            break
        answers.append(digest(wanted))
    return life, answers


def _write_lives(found: list[tuple[Life, list[str]]]) -> None:
    """Write the lives that get the same answers in another order."""
    with alone("default") as again:
        kept = []
        for life, answers in reversed(found):
            same = [digest(got) == answer for got, answer in zip(play_life(again, life), answers, strict=False)]
            first = same.index(False) if False in same else len(same)
            if first:
                kept.append((life, answers[:first]))
    print(f"{sum(len(answers) for _, answers in kept)} answers of {len(kept)} lives are kept", file=sys.stderr)
    write_lives(kept[::-1])


def _tell(what: str, lines: list[str]) -> None:
    print(what)
    print(*(f"    {line}" for line in lines[:4]), sep="\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
