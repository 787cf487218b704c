"""The growth of a request's cost with its size.

    python -m benchmarks.growth [--only TEXT] [--all] [--every N] [--worst] [--seconds 0.004]

There are two kinds of cases. `fields` has every list, map and text of every kind, in an object that is created. `cases`
has the other parts of a request that can be long: header fields, parameters, selectors, operations of a patch, items of
merged lists. Each case is measured at a size that costs a few ms of processor time, and at four times that size. A case
that costs more than seven times as much is printed and fails. --all prints the other cases as well. --only selects
cases by a text in their name, --every N a part of the fields. --worst sorts by the extrapolated time of a 3 MiB
request. More --seconds for the smaller size reveal a quadratic cost with a small factor.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.growth import cases, fields
from benchmarks.growth.measure import ENOUGH, Growth, measure_all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only cases with this text in their name")
    parser.add_argument("--all", action="store_true", help="print all cases")
    parser.add_argument("--every", type=int, default=1, help="measure only every N-th field")
    parser.add_argument("--worst", action="store_true", help="print the slowest cases, extrapolated to 3 MiB")
    parser.add_argument("--seconds", type=float, default=ENOUGH)
    options = parser.parse_args()
    chosen = [*cases.cases(), *list(fields.cases())[:: options.every]]
    chosen = [case for case in chosen if options.only in case.name]
    print(f"{len(chosen)} cases\n ratio    size      cost    four times    answer")
    found: list[Growth] = []
    for growth in measure_all(chosen, options.seconds):
        found.append(growth)
        if options.all or growth.too_fast:
            print(growth, flush=True)
    wrong = [growth for growth in found if growth.too_fast]
    if options.worst:
        print("\nslowest at 3 MiB")
        for growth in sorted(found, key=lambda each: -each.fourfold / each.size)[:40]:
            print(growth)
    print(f"\n{len(wrong)} of {len(chosen)} grow faster than their size")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
