"""Which node an allocation names decides what a driver may write with the rights for its own node."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.resources.devices.access import _node_of_allocation

Json = dict[str, Any]
NAME: Json = {"key": "metadata.name", "operator": "In", "values": ["n"]}
LABEL: Json = {"key": "zone", "operator": "In", "values": ["a"]}


@pytest.mark.parametrize(
    ("terms", "node"),
    [
        ([{"matchFields": [NAME]}], "n"),
        ([{"matchFields": [NAME], "matchExpressions": []}], "n"),
        (None, ""),
        ([], ""),
        ([{}], ""),
        ([{"matchFields": [NAME]}, {"matchFields": [NAME]}], ""),
        ([{"matchFields": [NAME], "matchExpressions": [LABEL]}], ""),
        ([{"matchFields": [NAME, NAME]}], ""),
        ([{"matchFields": [{**NAME, "key": "metadata.uid"}]}], ""),
        ([{"matchFields": [{**NAME, "operator": "NotIn"}]}], ""),
        ([{"matchFields": [{**NAME, "values": ["n", "m"]}]}], ""),
        ([{"matchFields": [{**NAME, "values": []}]}], ""),
    ],
)
def test_an_allocation_names_a_node_when_it_can_be_used_on_this_one_alone(terms: list[Json] | None, node: str) -> None:
    allocation = {} if terms is None else {"nodeSelector": {"nodeSelectorTerms": terms}}
    assert _node_of_allocation(allocation) == node
