"""The node of an allocation decides the writes that a driver may make with the rights for its own node."""

from __future__ import annotations

import pytest

from apiserver.api.objects import Json
from apiserver.request.messages import User
from apiserver.resources.devices.claims import _node_of_allocation, authorize_devices
from tests.resources.conftest import Judge

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


ACCOUNT = "system:serviceaccount:ns:driver"


@pytest.mark.parametrize(
    ("user", "nodes", "named", "granted", "allowed"),
    [
        (ACCOUNT, ["n"], "n", "associated-node:update", True),
        (ACCOUNT, ["n"], "n", "arbitrary-node:update", True),
        (ACCOUNT, ["n"], "n", "associated-node:patch", False),
        (ACCOUNT, ["m"], "n", "associated-node:update", False),
        (ACCOUNT, ["n", "m"], "n", "associated-node:update", False),
        (ACCOUNT, [], "n", "associated-node:update", False),
        (ACCOUNT, ["n_1"], "n_1", "associated-node:update", False),
        (ACCOUNT, [""], "", "associated-node:update", False),
        ("system:serviceaccount:ns", ["n"], "n", "associated-node:update", False),
        ("alice", ["n"], "n", "associated-node:update", False),
        ("alice", [], "n", "arbitrary-node:update", True),
    ],
)
def test_an_account_whose_token_names_the_node_may_write_what_its_driver_may_there(
    judge: Judge, user: str, nodes: list[str], named: str, granted: str, allowed: bool
) -> None:
    judge.user = User(user, extra={"authentication.kubernetes.io/node-name": tuple(nodes)})
    judge.allowed = lambda verb, _group, _plural, part, *_: part == "driver" and verb == granted
    ctx = judge.context(judge.find("resourceclaims"), subresource="status", verb="update")
    selector = {"nodeSelectorTerms": [{"matchFields": [{**NAME, "values": [named]}]}]}
    allocation = {"nodeSelector": selector} if named else {}
    entry = {"driver": "d", "pool": "p", "device": "x"}
    errors = authorize_devices(ctx, {"allocation": allocation, "devices": [entry]}, {"allocation": allocation})
    assert (errors == []) is allowed
    if not allowed:
        tried = "associated-node:update arbitrary" if nodes == [named] == ["n"] and user == ACCOUNT else "arbitrary"
        assert f'verb="[{tried}-node:update]" permission' in errors[0].text
