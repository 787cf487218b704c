"""Leases by which others see which servers live."""

from __future__ import annotations

import socket
from pathlib import Path

from apiserver.about import server_id
from tests.support.server import HeldTime, serve

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
IDENTITY = {"apiserver.kubernetes.io/identity": "kube-apiserver"}


def closed(tmp_path: Path) -> str:
    (tmp_path / "tokens.csv").write_text('root,root,1,"system:masters"\n')
    return f"--token-auth-file={tmp_path / 'tokens.csv'}"


def test_a_server_has_a_lease_and_ends_those_that_have_run_out(tmp_path: Path) -> None:
    with serve(closed(tmp_path), time=HeldTime()) as running:
        root = running.wire("root")
        [lease] = root.get(LEASES).json["items"]
        assert lease["metadata"]["name"] == server_id(socket.gethostname())
        assert lease["metadata"]["labels"] == {**IDENTITY, "kubernetes.io/hostname": socket.gethostname()}
        assert lease["spec"]["leaseDurationSeconds"] == 3600
        for name, labels in (("apiserver-gone", IDENTITY), ("other", {})):
            spec = {"renewTime": lease["spec"]["renewTime"], "leaseDurationSeconds": 1}
            assert root.post(LEASES, {"metadata": {"name": name, "labels": labels}, "spec": spec}).status == 201
        running.time.advance(3599)
        kept = running.server._lease
        assert kept is not None
        running.call(kept.renew)
        running.time.advance(2)
        running.call(kept.clean)
        left = {item["metadata"]["name"]: item["spec"] for item in root.get(LEASES).json["items"]}
        assert set(left) == {server_id(socket.gethostname()), "other"}
        assert left[server_id(socket.gethostname())]["renewTime"] > lease["spec"]["renewTime"]


def test_a_server_that_is_open_or_told_so_has_none(tmp_path: Path) -> None:
    with serve() as running:
        assert running.wire().get(LEASES).json["items"] == []
    with serve(closed(tmp_path), "--feature-gates=APIServerIdentity=false") as running:
        assert running.wire("root").get(LEASES).json["items"] == []
