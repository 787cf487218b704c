"""Selector vectors: compile errors, types, estimated and actual costs, results and evaluation errors."""

from __future__ import annotations

from typing import Any

from apiserver import cel
from apiserver.cel import CompileError, Device, EvaluationError, device_environment
from tests.conformance.vectors import Case, Difference, Skipped, expect

_RELEASE = (1, 36)


def handle(case: Case) -> Skipped | str | None:
    """Compile the expression and evaluate it for the device."""
    want = case["expect"]
    environment = device_environment(_RELEASE, case["features"], stored=case["environment"] == "stored")
    program = cel.compile(case["expression"], environment)
    if isinstance(program, CompileError):
        expect("compileError", program.text, want["compileError"])
        return None
    expect("compileError", None, want["compileError"])
    expect("outputType", program.output_type, want["outputType"])
    expect("maxCost", program.max_cost, want["maxCost"])
    device = Device.from_slice(case["device"]["driver"], case["device"])
    try:
        match, cost = program.evaluate_with_cost(device)
    except EvaluationError as error:
        _expect_error(error, want)
        cost = error.cost
    else:
        expect("matchError", None, want["matchError"])
        expect("match", match, want["match"])
    if want["actualCost"] is not None:
        expect("actualCost", cost, want["actualCost"])
    elif want["actualCostRange"] is not None:
        low, high = want["actualCostRange"]
        if not low <= cost <= high:
            raise Difference(f"actualCost: got {cost}, want {low} to {high}")
    return None


def _expect_error(error: EvaluationError, want: dict[str, Any]) -> None:
    possible = want["matchErrorAlternatives"] or [want["matchError"]]
    if error.text not in possible:
        expect("matchError", error.text, want["matchError"])
