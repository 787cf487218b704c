"""Quantity vectors: parsing, canonical text, arithmetic, rounding."""

from __future__ import annotations

import math
from typing import Any

from apiserver.api.values.quantity import Quantity
from tests.conformance.vectors import Case, Skipped, expect


def handle(case: Case) -> Skipped | str | None:
    """One recorded operation."""
    return _OPERATIONS[case["op"]](case)


def _parsed(text: str, want_error: str | None, parse: Any) -> Quantity | None:
    try:
        quantity: Quantity = parse(text)
    except ValueError as error:
        expect("error", str(error), want_error)
        return None
    expect("error", None, want_error)
    return quantity


def _whole(recorded: int | str | None) -> int | None:
    """Parse a recorded amount; it is text if not every JSON reader can represent it."""
    return int(recorded) if isinstance(recorded, str) else recorded


def _parse(case: Case) -> None:
    quantity = _parsed(case["input"], case["error"], Quantity.parse)
    if quantity is None:
        return
    expect("string", str(quantity), case["string"])
    expect("json", str(quantity), case["json"])
    expect("computedCanonical", quantity.canonical_text(), case["computedCanonical"])
    expect("format", quantity.format.value, case["format"])
    expect("sign", quantity.sign, case["sign"])
    expect("isZero", quantity.is_zero, case["isZero"])
    expect("decimal", quantity.decimal_text(), case["decimal"])
    expect("asInt64", quantity.as_int64(), _whole(case["asInt64"]))
    if case["valueRoundedUp"] is not None:
        expect("valueRoundedUp", quantity.value(), _whole(case["valueRoundedUp"]))
    if case["milliValueRoundedUp"] is not None:
        expect("milliValueRoundedUp", quantity.value(-3), _whole(case["milliValueRoundedUp"]))
    wanted = float(case["approximateFloat"])  # what JSON has no number for is text: "+Inf"
    got = quantity.approximate_float()
    if not math.isclose(got, wanted, rel_tol=1e-15) and not math.isnan(got) & math.isnan(wanted):
        expect("approximateFloat", got, wanted)


def _from_json(case: Case) -> None:
    quantity = _parsed(case["inputText"], case["error"], Quantity.from_json)
    if quantity is not None:
        expect("string", str(quantity), case["string"])
        expect("format", quantity.format.value, case["format"])
        expect("jsonText", f'"{quantity}"', case["jsonText"])


def _pair(case: Case) -> None:
    left, right = Quantity.parse(case["a"]), Quantity.parse(case["b"])
    expect("cmp", left.compare(right), case["cmp"])
    expect("equal", left == right, case["equal"])
    expect("add", str(left.add(right)), case["add"])
    expect("sub", str(left.sub(right)), case["sub"])
    expect("negA", str(left.neg()), case["negA"])


def _mul(case: Case) -> None:
    product, exact = Quantity.parse(case["a"]).mul(case["factor"])
    expect("result", str(product), case["result"])
    expect("exactInt64", exact, case["exactInt64"])


def _round_up(case: Case) -> None:
    rounded, exact = Quantity.parse(case["a"]).round_up(case["scale"])
    expect("result", str(rounded), case["result"])
    expect("exact", exact, case["exact"])


_OPERATIONS = {"parse": _parse, "fromJSON": _from_json, "pair": _pair, "mul": _mul, "roundUp": _round_up}
