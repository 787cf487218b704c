"""The server's own writes: its identity lease, and the fields that it owns."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from apiserver.controlplane.about import server_id
from tests.support.server import HeldTime, serve
from tests.support.tokens import token_flag

pytestmark = pytest.mark.integration

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
IDENTITY = {"apiserver.kubernetes.io/identity": "kube-apiserver"}


def closed(tmp_path: Path) -> str:
    return token_flag(tmp_path)


def test_a_server_has_a_lease_and_ends_those_that_have_run_out(tmp_path: Path) -> None:
    with serve(closed(tmp_path), time=HeldTime()) as running:
        root = running.wire("root")
        [lease] = root.get(LEASES).json["items"]
        assert lease["metadata"]["name"] == server_id(socket.gethostname())
        assert lease["metadata"]["labels"] == {**IDENTITY, "kubernetes.io/hostname": socket.gethostname()}
        assert lease["spec"]["leaseDurationSeconds"] == 3600
        for name, labels in (("apiserver-gone", IDENTITY), ("other", {})):
            spec = {"renewTime": lease["spec"]["renewTime"], "leaseDurationSeconds": 1}
            root.create(LEASES, {"metadata": {"name": name, "labels": labels}, "spec": spec})
        running.time.advance(3599)
        kept = running.server._lease
        assert kept is not None
        running.call(kept.renew)
        running.time.advance(2)
        running.call(kept.clean)
        left = {item["metadata"]["name"]: item["spec"] for item in root.get(LEASES).json["items"]}
        assert set(left) == {server_id(socket.gethostname()), "other"}
        assert left[server_id(socket.gethostname())]["renewTime"] > lease["spec"]["renewTime"]


def test_an_open_server_or_one_without_the_gate_has_no_lease(tmp_path: Path) -> None:
    with serve() as running:
        assert running.wire().get(LEASES).json["items"] == []
    with serve(closed(tmp_path), "--feature-gates=APIServerIdentity=false") as running:
        assert running.wire("root").get(LEASES).json["items"] == []


def test_the_server_owns_the_fields_that_it_changes_itself() -> None:
    """The counted usage does not belong to an earlier writer of the quota's status."""
    with serve() as running:
        wire = running.wire()
        quotas, pods = (f"/api/v1/namespaces/default/{plural}" for plural in ("resourcequotas", "pods"))
        wire.create(quotas, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}})
        counted = {"status": {"hard": {"pods": "2"}, "used": {"pods": "0"}}}
        merge = {"Content-Type": "application/merge-patch+json", "User-Agent": "counter"}
        assert wire.request("PATCH", f"{quotas}/q/status", counted, merge).status == 200
        wire.create(pods, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
        owned = {
            entry["manager"]: entry["fieldsV1"]["f:status"]
            for entry in wire.get(f"{quotas}/q").json["metadata"]["managedFields"]
            if entry.get("subresource") == "status"
        }
        assert owned["kube-apiserver"] == {"f:used": {"f:pods": {}}}
        assert "f:pods" not in owned["counter"]["f:used"]
