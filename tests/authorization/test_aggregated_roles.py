"""Aggregated cluster roles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controllers.cluster.cluster_roles import aggregate_rules
from tests.support.patience import wait_until
from tests.support.tokens import token_flag
from tests.support.wire import Child, Wire

pytestmark = pytest.mark.integration

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


def role(name: str, *rules: dict[str, Any], **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "rules": list(rules)}


def test_rules_are_gathered_by_label_in_order_of_names_and_each_once() -> None:
    one, two = {"verbs": ["get"], "nonResourceURLs": ["/1"]}, {"verbs": ["get"], "nonResourceURLs": ["/2"]}
    whole = {**role("all", a="b"), "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
    assert aggregate_rules(
        whole, [whole, role("z", one, a="b"), role("b", two, one, a="b"), role("c", two, a="c")]
    ) == [two, one]


def rules(wire: Wire, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = wire.get(f"{ROLES}/{name}").json.get("rules") or []
    return found


def test_the_controller_fills_edit_and_view_and_follows_new_roles(tmp_path: Path) -> None:
    tokens = token_flag(tmp_path)
    flags = (tokens, "--authorization-mode=RBAC", "--controllers=clusterrole-aggregation-controller")
    with Child(tmp_path / "data", *flags) as child:
        wire = child.wire("root")
        claims = {"verbs": ["get", "list", "watch"], "apiGroups": ["resource.k8s.io"]}
        read = {**claims, "resources": ["resourceclaims", "resourceclaims/status", "resourceclaimtemplates"]}
        wait_until(lambda: read in rules(wire, "view"), "view has what its parts have")
        wait_until(lambda: read in rules(wire, "admin"), "admin has what view has")
        mine = {"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["gpus"]}
        body = role("gpus", mine, **{"rbac.authorization.k8s.io/aggregate-to-view": "true"})
        wire.create(ROLES, body)
        wait_until(lambda: mine in rules(wire, "edit"), "edit has what was added to view")
