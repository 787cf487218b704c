"""With a seed and virtual time the same requests make the same history, byte for byte: uids, names, times and order."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.objects import Json
from kubedra import ControlPlane
from kubedra.client.client import Client
from kubedra.client.clock import Clock
from tests.support.ports import free_port

pytestmark = pytest.mark.integration

PODS = 30
TAINT = {"key": "broken", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
TOLERATION = {"key": "broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


def template() -> Json:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "tolerations": [TOLERATION]}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def make_pod(number: int) -> Json:
    """Make a pod with a claim; some end by themselves, after different times."""
    ends = {"kubedra.dev/exit-after": f"{number}s"} if number % 3 == 0 else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "job-", "annotations": ends, "labels": {"number": str(number)}},
        "spec": {
            "restartPolicy": "Never" if number % 2 else "Always",
            "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
        },
    }


def scenario(client: Client, clock: Clock) -> None:
    """More pods than devices, devices that break, pods that are deleted, a rule, time that passes in between."""
    client.create(template())
    made = []
    for number in range(PODS):
        made.append(client.create(make_pod(number))["metadata"]["name"])
        if number % 10 == 0:
            clock.advance(timedelta(seconds=1))
    first = client.list("resourceslices", namespace="")[0]
    first["spec"]["devices"][0]["taints"] = [TAINT]
    client.request("PUT", f"/apis/resource.k8s.io/v1/resourceslices/{first['metadata']['name']}", first)
    clock.advance(minutes=4)
    for name in made[17:26:3]:
        client.delete(f"pod/{name}")
    clock.advance(minutes=4)
    client.request(
        "PATCH",
        f"/apis/resource.k8s.io/v1/resourceslices/{first['metadata']['name']}",
        {"spec": {"pool": {"name": first["spec"]["pool"]["name"], "generation": 2, "resourceSliceCount": 1}}},
        content_type="application/merge-patch+json",
    )
    for pod in client.list("pods"):
        client.delete(f"pod/{pod['metadata']['name']}")
    clock.advance(minutes=30)


@cache
def _port() -> int:
    return free_port()


def history(directory: Path, seed: int, steps: Callable[[Client, Clock], None] = scenario) -> list[tuple[Any, ...]]:
    """Return every row of the log that a control plane writes at its start and in a scenario.

    The service `kubernetes` contains the server's port, so the port is the same each time.
    """
    settings: Json = {"storage": "sqlite", "data_dir": directory, "clock": "virtual", "seed": seed}
    with ControlPlane(nodes=2, devices="gpu.example.com", args=(f"--port={_port()}",), **settings) as plane:
        with plane.client() as client:
            steps(client, Clock(lambda: client))
        assert "Traceback" not in plane.log()
    with sqlite3.connect(directory / "kubedra.db") as database:
        columns = "revision, key, create_revision, prev_revision, deleted, value"
        return database.execute(f"SELECT {columns} FROM log ORDER BY revision").fetchall()


def test_the_same_seed_and_requests_give_the_same_log_and_another_seed_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The order of a set of texts differs from process to process unless this is the same.
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    first = history(tmp_path / "first", 7)
    monkeypatch.setenv("PYTHONHASHSEED", "2")
    again = history(tmp_path / "again", 7)
    assert len(first) > 5 * PODS
    assert next((pair for pair in zip(first, again, strict=False) if pair[0] != pair[1]), None) is None
    assert len(first) == len(again)
    assert any(b"Marking for deletion" in row[5] for row in first), "a pod was evicted"
    other = history(tmp_path / "other", 8, lambda *_: None)
    assert other[0] != first[0]
