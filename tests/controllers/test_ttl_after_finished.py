"""Finished Jobs with a time to live go when it has passed, on a running control plane in virtual time."""

from typing import Any

import pytest

from kubedra.pytest_plugin import Kube

pytestmark = [pytest.mark.integration, pytest.mark.kube(clock="virtual")]

TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}


def job(name: str, seconds: int | None) -> dict[str, Any]:
    # Suspended: no pods keep it from ending when a test says so.
    spec: dict[str, Any] = {"template": TEMPLATE, "suspend": True}
    if seconds is not None:
        spec["ttlSecondsAfterFinished"] = seconds
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def finish(kube: Any, name: str, condition: str = "Complete") -> None:
    """Write the conditions of a finished Job as the job controller does."""
    at = kube.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    before = "SuccessCriteriaMet" if condition == "Complete" else "FailureTarget"
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": at, "lastTransitionTime": at} for kind in (before, condition)
    ]
    status: dict[str, Any] = {"startTime": at, "conditions": conditions}
    if condition == "Complete":
        status["completionTime"] = at
    kube.client().patch(f"job/{name}", {"status": status}, subresource="status")


def there(kube: Any) -> list[str]:
    return sorted(item["metadata"]["name"] for item in kube.client().list("jobs"))


def test_a_job_goes_when_its_time_after_the_end_has_passed(kube: Kube) -> None:
    kube.apply([job("short", 60), job("long", 3600), job("kept", None), job("running", 1)])
    for name in ("short", "long", "kept"):
        finish(kube, name)
    kube.advance(seconds=59)
    assert there(kube) == ["kept", "long", "running", "short"]
    kube.advance(seconds=2)
    assert there(kube) == ["kept", "long", "running"]
    kube.advance(hours=1)
    assert there(kube) == ["kept", "running"]


def test_pods_of_the_job_go_before_it(kube: Kube) -> None:
    kube.apply([job("a", 10)])
    made = kube.get("job/a")
    owner = {
        "apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": made["metadata"]["uid"], "controller": True,
        "blockOwnerDeletion": True,
    }  # fmt: skip
    metadata = {"name": "a-1", "ownerReferences": [owner], "finalizers": ["example.com/keep"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **TEMPLATE}
    kube.apply([pod])
    finish(kube, "a")
    kube.advance(seconds=20)
    assert kube.get("job/a")["metadata"]["finalizers"] == ["foregroundDeletion"]
    kube.client().patch("pod/a-1", {"metadata": {"finalizers": None}})
    kube.advance(seconds=20)
    assert there(kube) == []
