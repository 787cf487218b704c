"""Schemas say whether the level that they name is there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.patience import wait_until
from tests.support.server import serve

pytestmark = pytest.mark.integration

FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"


def test_a_schema_says_whether_its_level_is_there() -> None:
    with serve() as running:
        wire = running.wire()

        def dangling(name: str) -> tuple[str, str, str]:
            conditions = wire.get(f"{FLOWS}/flowschemas/{name}").json["status"].get("conditions", [{}])
            found: dict[str, Any] = next((each for each in conditions if each.get("type") == "Dangling"), {})
            return found.get("status", ""), found.get("reason", ""), found.get("message", "")

        names = "This FlowSchema references the PriorityLevelConfiguration object named"
        for item in wire.get(f"{FLOWS}/flowschemas").json["items"]:
            level = item["spec"]["priorityLevelConfiguration"]["name"]
            assert dangling(item["metadata"]["name"]) == ("False", "Found", f'{names} "{level}" and it exists')
        probes = wire.get(f"{FLOWS}/flowschemas/probes").json["metadata"]["managedFields"]
        assert [(each["manager"].split("-")[-2], each.get("subresource")) for each in probes] == [
            ("consumer", "status"),
            ("producer", None),
        ]
        spec = {"priorityLevelConfiguration": {"name": "mine"}, "matchingPrecedence": 7, "rules": []}
        assert wire.post(f"{FLOWS}/flowschemas", {"metadata": {"name": "a"}, "spec": spec}).status == 201
        missing = ("True", "NotFound", f'{names} "mine" but there is no such object')
        wait_until(lambda: dangling("a") == missing, "the schema has no level")
        limited = {"limitResponse": {"type": "Reject"}}
        level = {"metadata": {"name": "mine"}, "spec": {"type": "Limited", "limited": limited}}
        assert wire.post(f"{FLOWS}/prioritylevelconfigurations", level).status == 201
        wait_until(lambda: dangling("a") == ("False", "Found", f'{names} "mine" and it exists'), "the level is there")
        assert wire.request("DELETE", f"{FLOWS}/prioritylevelconfigurations/mine").status == 200
        wait_until(lambda: dangling("a") == missing, "the level is gone")


def test_whoever_says_the_opposite_is_contradicted_six_times_a_minute() -> None:
    merge = {"Content-Type": "application/merge-patch+json"}
    with serve() as running:
        wire = running.wire()

        def status(name: str = "probes") -> str:
            conditions = wire.get(f"{FLOWS}/flowschemas/{name}").json["status"].get("conditions", [])
            return "".join(each["status"] for each in conditions)

        def contradict() -> None:
            wrong = {"status": {"conditions": [{"type": "Dangling", "status": "True"}]}}
            assert wire.request("PATCH", f"{FLOWS}/flowschemas/probes/status", wrong, merge).status == 200

        for _ in range(6):
            contradict()
            wait_until(lambda: status() == "False", "it is said again")
        contradict()
        spec = {"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 7, "rules": []}
        assert wire.post(f"{FLOWS}/flowschemas", {"metadata": {"name": "new"}, "spec": spec}).status == 201
        wait_until(lambda: status("new") == "False", "others are not concerned")
        assert status() == "True"
