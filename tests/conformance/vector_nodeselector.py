"""Node selector vectors: node selectors, the required affinity of pods, preferred terms."""

from __future__ import annotations

from typing import Any

from apiserver.api.selectors.node_selectors import (
    InvalidNodeSelector,
    NodeSelector,
    PreferredTerms,
    RequiredNodeAffinity,
)
from tests.conformance.vectors import Case, Skipped, expect


def handle(case: Case) -> Skipped | str | None:
    """One recorded operation."""
    return _OPERATIONS[case["op"]](case)


def _attempt(action: Any, *arguments: Any) -> tuple[Any, str | None]:
    try:
        return action(*arguments), None
    except InvalidNodeSelector as error:
        return None, str(error)


def _node_selector(case: Case) -> None:
    strict, error = _attempt(NodeSelector.strict, case["nodeSelector"])
    expect("strictError", error, case["strictError"])
    lazy = NodeSelector.parse(case["nodeSelector"])
    for result in case["results"]:
        if strict is not None:
            expect("match", strict.match(result["node"]), result["match"])
        match, error = _attempt(lazy.match, result["node"])
        expect("lazyError", error, result["lazyError"])
        expect("lazyMatch", bool(match), result["lazyMatch"])


def _required(case: Case) -> None:
    affinity = RequiredNodeAffinity.of_pod(case["pod"])
    for result in case["results"]:
        match, error = _attempt(affinity.match, result["node"])
        expect("error", error, result["error"])
        expect("match", bool(match), result["match"])


def _preferred(case: Case) -> None:
    terms, error = _attempt(PreferredTerms.parse, case["terms"] or ())
    expect("error", error, case["error"])
    if terms is not None:
        for result in case["results"]:
            expect("score", terms.score(result["node"]), result["score"])


_OPERATIONS = {"nodeSelector": _node_selector, "requiredNodeAffinity": _required, "preferredTerms": _preferred}
