"""Every served group and version has an APIService, custom groups while they are served."""

from __future__ import annotations

import pytest

from apiserver.api.objects import Json
from tests.support.patience import wait_until
from tests.support.server import serve
from tests.support.wire import Wire

pytestmark = pytest.mark.integration

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
DEFINITION: Json = {
    "metadata": {"name": "things.a.example.com"},
    "spec": {
        "group": "a.example.com",
        "scope": "Cluster",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}


def named(wire: Wire) -> dict[str, str]:
    """Return the label of each API service by name."""
    label = "kube-aggregator.kubernetes.io/automanaged"
    items = wire.get(SERVICES).json["items"]
    return {item["metadata"]["name"]: item["metadata"].get("labels", {}).get(label, "") for item in items}


def test_served_versions_are_listed() -> None:
    with serve("--runtime-config=resource.k8s.io/v1beta1=false") as running:
        wire = running.wire()
        groups = wire.get("/apis").json["groups"]
        served = {f"{v['version']}.{group['name']}" for group in groups for v in group["versions"]} | {"v1."}
        # The group that lists all others is listed nowhere.
        assert set(named(wire)) == served - {"v1.apiregistration.k8s.io"}
        assert set(named(wire).values()) == {"onstart"}
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        wire.create(definitions, DEFINITION)
        wait_until(lambda: named(wire).get("v1.a.example.com") == "true", "the custom group is listed")
        assert wire.delete(f"{definitions}/things.a.example.com").status == 200
        wait_until(lambda: "v1.a.example.com" not in named(wire), "the custom group is not listed any more")
        before = {name: wire.get(f"{SERVICES}/{name}").json["metadata"]["uid"] for name in ("v1.apps", "v1.batch")}
        assert wire.delete(f"{SERVICES}/v1.batch").status == 200
        assert wire.post("/-/reset", {}).status == 200
        after = {name: wire.get(f"{SERVICES}/{name}").json["metadata"]["uid"] for name in before}
        assert after["v1.apps"] == before["v1.apps"]
        assert after["v1.batch"] != before["v1.batch"]
