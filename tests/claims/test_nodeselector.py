"""Node selectors: their matches, and when an invalid one is an error."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.api.selectors.node_selectors import (
    InvalidNodeSelector,
    NodeSelector,
    PreferredTerms,
    RequiredNodeAffinity,
)

NODE = {"metadata": {"name": "n1", "labels": {"zone": "a", "size": "5", "odd": "x"}}}


def selector(*requirements: dict[str, Any], fields: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"nodeSelectorTerms": [{"matchExpressions": list(requirements), "matchFields": fields or []}]}


def need(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("requirement", "matches"),
    [
        (need("zone", "In", "a", "b"), True),
        (need("none", "In", "a"), False),
        (need("zone", "NotIn", "a"), False),
        (need("none", "NotIn", "a"), True),
        (need("zone", "Exists"), True),
        (need("zone", "DoesNotExist"), False),
        (need("size", "Gt", "4"), True),
        (need("size", "Gt", "5"), False),
        (need("size", "Lt", "6"), True),
        (need("odd", "Gt", "1"), False),
        (need("none", "Lt", "1"), False),
    ],
)
def test_an_operator_compares_the_label(requirement: dict[str, Any], matches: bool) -> None:
    assert NodeSelector.strict(selector(requirement)).match(NODE) is matches


def test_all_requirements_of_a_term_and_any_of_the_terms_must_hold() -> None:
    both = selector(need("zone", "In", "a"), need("size", "In", "6"))
    assert not NodeSelector.strict(both).match(NODE)
    either = {"nodeSelectorTerms": [*both["nodeSelectorTerms"], *selector(need("odd", "Exists"))["nodeSelectorTerms"]]}
    assert NodeSelector.strict(either).match(NODE)
    assert not NodeSelector.strict({"nodeSelectorTerms": [{}]}).match(NODE)


def test_fields_compare_the_name_and_do_not_matter_without_one() -> None:
    named = selector(fields=[need("metadata.name", "In", "n2")])
    assert not NodeSelector.strict(named).match(NODE)
    assert NodeSelector.strict(named).match({"metadata": {}})


def test_a_broken_term_only_matters_when_no_other_matches() -> None:
    terms = [
        *selector(need("zone", "Near"))["nodeSelectorTerms"],
        *selector(need("zone", "In", "a"))["nodeSelectorTerms"],
    ]
    lazy = NodeSelector.parse({"nodeSelectorTerms": terms})
    assert lazy.match(NODE)
    with pytest.raises(
        InvalidNodeSelector, match=r"nodeSelectorTerms\[0\].matchExpressions\[0\].operator: Unsupported"
    ):
        lazy.match({"metadata": {"name": "n2"}})
    with pytest.raises(InvalidNodeSelector):
        NodeSelector.strict({"nodeSelectorTerms": terms})


def test_the_affinity_of_a_pod_joins_its_labels_and_its_terms() -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": selector(need("size", "Gt", "3"))}
    spec = {"nodeSelector": {"zone": "a"}, "affinity": {"nodeAffinity": required}}
    assert RequiredNodeAffinity.of_pod({"spec": spec}).match(NODE)
    assert not RequiredNodeAffinity.of_pod({"spec": {**spec, "nodeSelector": {"zone": "b"}}}).match(NODE)
    assert RequiredNodeAffinity.of_pod({"spec": {}}).match(NODE)


def test_preferred_terms_add_up_and_those_without_weight_are_not_even_read() -> None:
    terms = [
        (3, need("zone", "In", "a")),
        (4, need("size", "Lt", "9")),
        (5, need("zone", "In", "b")),
        (0, need("x", "?")),
    ]
    parsed = PreferredTerms.parse([{"weight": w, "preference": {"matchExpressions": [r]}} for w, r in terms])
    assert parsed.score(NODE) == 7


@given(st.integers(), st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 1))
def test_numbers_outside_of_64_bits_are_no_numbers(label: int, bound: int) -> None:
    node = {"metadata": {"name": "n", "labels": {"size": str(label)}}}
    parsed = NodeSelector.parse(selector(need("size", "Gt", str(bound))))
    if parsed.terms[0].errors:
        return
    assert parsed.match(node) is (-(1 << 63) <= label < 1 << 63 and label > bound)
