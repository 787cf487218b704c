"""The condition of a flow schema about its priority level."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.patience import wait_until
from tests.support.server import serve

pytestmark = pytest.mark.integration

FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"


def test_a_schema_has_a_condition_about_its_level() -> None:
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
        wire.create(f"{FLOWS}/flowschemas", {"metadata": {"name": "a"}, "spec": spec})
        missing = ("True", "NotFound", f'{names} "mine" but there is no such object')
        wait_until(lambda: dangling("a") == missing, "the schema has no level")
        limited = {"limitResponse": {"type": "Reject"}}
        level = {"metadata": {"name": "mine"}, "spec": {"type": "Limited", "limited": limited}}
        wire.create(f"{FLOWS}/prioritylevelconfigurations", level)
        wait_until(lambda: dangling("a") == ("False", "Found", f'{names} "mine" and it exists'), "the level is there")
        assert wire.delete(f"{FLOWS}/prioritylevelconfigurations/mine").status == 200
        wait_until(lambda: dangling("a") == missing, "the level is gone")


def test_a_wrong_condition_is_corrected_at_most_six_times_per_minute() -> None:
    with serve() as running:
        wire = running.wire()

        def status(name: str = "probes") -> str:
            conditions = wire.get(f"{FLOWS}/flowschemas/{name}").json["status"].get("conditions", [])
            return "".join(each["status"] for each in conditions)

        def contradict() -> None:
            wrong = {"status": {"conditions": [{"type": "Dangling", "status": "True"}]}}
            assert wire.patch(f"{FLOWS}/flowschemas/probes/status", wrong).status == 200

        for _ in range(6):
            contradict()
            wait_until(lambda: status() == "False", "it is said again")
        contradict()
        spec = {"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 7, "rules": []}
        wire.create(f"{FLOWS}/flowschemas", {"metadata": {"name": "new"}, "spec": spec})
        wait_until(lambda: status("new") == "False", "others are not concerned")
        assert status() == "True"
