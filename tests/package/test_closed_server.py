"""The recipe of docs/security.md for a closed server, as it is written there, tried with the token of a node."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apiserver.command import credentials as credentials_command
from apiserver.options.settings import read
from tests.support.wire import ROOT, Child, Wire

pytestmark = pytest.mark.integration

NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
MERGE = {"Content-Type": "application/merge-patch+json"}


def recipe(directory: Path) -> list[list[str]]:
    """Return the arguments of the recipe's two commands."""
    text = (ROOT / "docs" / "security.md").read_text()
    found = re.search(r"To close a server, run `(.*?)`.*?start it with `(.*?)`", text, re.DOTALL)
    assert found is not None
    return [part.replace("DIR", str(directory)).split() for part in found.groups()]


@pytest.fixture(scope="module")
def administrator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    directory = tmp_path_factory.mktemp("closed")
    create, flags = recipe(directory / "c")
    assert credentials_command.main(create[2:]) == 0
    tokens = directory / "c" / "tokens.csv"
    with tokens.open("a") as file:
        file.write('node-token,system:node:w1,w1,"system:nodes"\n')
    with Child(directory / "data", *flags, "--disable-admission-plugins=ServiceAccount") as child:
        token = tokens.read_text().partition(",")[0]
        wire = child.wire(token, (directory / "data" / "tls.crt").read_text())
        for name in ("w1", "w2"):
            create_all_of(wire, name)
        yield wire


def create_all_of(wire: Wire, node: str) -> None:
    """Create a node with its pod, lease and slice."""
    metadata = {"metadata": {"name": node}}
    pod = {**metadata, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "c"}]}}
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    hardware = {**metadata, "spec": {"driver": "d.example", "nodeName": node, "pool": pool, "devices": [{"name": "a"}]}}
    for path, body in ((NODES, metadata), (PODS, pod), (LEASES, metadata), (SLICES, hardware)):
        made = wire.post(path, body)
        assert made.status == 201, made.text


@pytest.mark.parametrize(
    ("path", "change"),
    [
        (f"{NODES}/{{}}", {"metadata": {"labels": {"mine": "1"}}}),
        (f"{NODES}/{{}}/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
        (f"{PODS}/{{}}/status", {"status": {"phase": "Running"}}),
        (f"{LEASES}/{{}}", {"spec": {"holderIdentity": "w1"}}),
        (f"{SLICES}/{{}}", {"spec": {"devices": []}}),
    ],
)
def test_a_node_changes_its_own_objects_and_no_others(administrator: Wire, path: str, change: Any) -> None:
    node = administrator.user("node-token")
    statuses = [node.request("PATCH", path.format(name), change, MERGE).status for name in ("w1", "w2")]
    assert statuses == [200, 403]


def test_a_node_deletes_no_pod_of_another(administrator: Wire) -> None:
    assert administrator.user("node-token").request("DELETE", f"{PODS}/w2").status == 403


def test_only_the_mode_node_restricts_nodes_and_a_flag_turns_that_off() -> None:
    mode, off = "--authorization-mode=Node,RBAC", "--disable-admission-plugins=NodeRestriction"
    assert "NodeRestriction" in read([mode]).enable_plugins
    assert "NodeRestriction" not in read([mode, off]).enable_plugins
    assert "NodeRestriction" not in read(["--authorization-mode=RBAC"]).enable_plugins
