"""What upstream's own library makes of expressions, as it is kept for `test_recorded_expressions.py`.

    python -m tests.cel.recording BINARY [--count N]

asks a program built from `recorded/verdicts.go` in a checkout of Kubernetes. What we judge differently is printed and not
kept.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from apiserver.api.objects import Json
from tests.cel.expressions import DEVICE, DRIVER, Maker, judged, verdict

_KEPT: Final = Path(__file__).parent / "recorded" / "expressions.jsonl"


def environment(number: int) -> dict[str, bool]:
    """Return the environment of an expression: mostly of stored objects, sometimes with lists in attributes."""
    return {"stored": number % 5 != 0, "lists": number % 9 == 0}


def read() -> list[tuple[str, int, Json]]:
    """Return (expression, number of its environment, verdict) of each recorded case."""
    return [tuple(json.loads(line)) for line in _KEPT.read_text().splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cel.recording", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("binary")
    parser.add_argument("--count", type=int, default=5000)
    given = parser.parse_args()
    maker = Maker()
    asked: dict[str, int] = {}
    for number in range(given.count):
        asked.setdefault(judged(maker.expression(number)), number)
    lines = [
        json.dumps({"expression": expression, "driver": DRIVER, "device": DEVICE, **environment(number)})
        for expression, number in asked.items()
    ]
    done = subprocess.run([given.binary], input="\n".join(lines), capture_output=True, check=True, text=True)
    kept = 0
    with _KEPT.open("w") as file:
        for (expression, number), line in zip(asked.items(), done.stdout.splitlines(), strict=True):
            theirs, ours = _plain(json.loads(line)), verdict(expression, **environment(number))
            if theirs == ours:
                file.write(json.dumps([expression, number, ours]) + "\n")
                kept += 1
            else:
                print(f"{expression}\n    theirs {theirs}\n    ours   {ours}")
    print(f"{kept} of {len(asked)} are kept", file=sys.stderr)
    return 0


def _plain(theirs: Json) -> Json:
    """Convert a verdict to our form, without zero and false values."""
    if "error" in theirs:
        return {"error": theirs["error"]}
    found = {"type": theirs["type"], "max": theirs.get("max", 0)}
    if "failed" in theirs:
        return {**found, "failed": theirs["failed"], "cost": theirs.get("cost", 0)}
    return {**found, "match": theirs.get("match", False), "cost": theirs.get("cost", 0)}


if __name__ == "__main__":
    sys.exit(main())
