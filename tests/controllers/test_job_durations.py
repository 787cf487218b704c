"""Emulated containers of Jobs end after the time that the server, their node, their namespace or their pod sets."""

from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.kubelet.emulation.annotations import exit_after
from controllers.runtime.kinds import JOBS, PODS
from kubedra.pytest_plugin import Kube
from tests.support.objects import make_manifest

pytestmark = [pytest.mark.integration]
EXIT_AFTER, JOBS_EXIT_AFTER = "kubedra.dev/exit-after", "kubedra.dev/jobs-exit-after"


def job(name: str = "hook", *, annotations: Json | None = None, **spec: Any) -> Json:
    containers = [{"name": "c", "image": "registry.example.com/i:1"}]
    template = {
        "metadata": {"annotations": annotations or {}},
        "spec": {"restartPolicy": "Never", "containers": containers, **spec},
    }
    return make_manifest(JOBS, name, {"template": template})


def annotate(kube: Kube, target: str, value: str | None) -> None:
    kube.patch(target, {"metadata": {"annotations": {JOBS_EXIT_AFTER: value}}})


def is_complete(kube: Kube, name: str = "hook") -> bool:
    return bool(kube.get(f"job/{name}").get("status", {}).get("succeeded"))


def ends_after(kube: Kube, seconds: float, name: str = "hook") -> None:
    """Assert that the Job ends after this time, not before."""
    kube.advance(seconds=seconds - 1)
    assert not is_complete(kube, name)
    kube.advance(seconds=1.1)
    assert is_complete(kube, name)


@pytest.mark.kube(own=True, clock="virtual", nodes=1, jobs_exit_after="10s")
def test_the_most_specific_setting_applies(kube: Kube) -> None:
    kube.apply(job())
    ends_after(kube, 10)

    annotate(kube, "node/node-1", "20s")
    kube.apply(job("of-node"))
    ends_after(kube, 20, "of-node")

    annotate(kube, "namespace/default", "5m")
    kube.apply(job("of-namespace"))
    ends_after(kube, 300, "of-namespace")

    kube.apply(job("of-pod", annotations={EXIT_AFTER: "30"}))
    ends_after(kube, 30, "of-pod")


@pytest.mark.kube(own=True, clock="virtual", nodes=1, jobs_exit_after="10s")
def test_never_exempts_a_namespace_and_a_pod(kube: Kube) -> None:
    kube.apply(job("of-pod", annotations={EXIT_AFTER: "never"}))
    annotate(kube, "namespace/default", "never")
    kube.apply(job("of-namespace"))
    kube.advance(hours=1)
    assert not is_complete(kube, "of-pod")
    assert not is_complete(kube, "of-namespace")


@pytest.mark.kube(own=True, clock="virtual", nodes=1, jobs_exit_after="10s")
def test_only_regular_containers_of_jobs_end(kube: Kube) -> None:
    containers = [{"name": "c", "image": "i"}]
    kube.apply(make_manifest(PODS, "alone", {"containers": containers}))
    kube.apply(job(initContainers=[{"name": "proxy", "image": "i", "restartPolicy": "Always"}]))
    ends_after(kube, 10)
    (proxy,) = kube.list("pods", labelSelector="job-name=hook")[0]["status"]["initContainerStatuses"]
    assert proxy["restartCount"] == 0
    assert kube.get("pod/alone")["status"]["phase"] == "Running"


@pytest.mark.kube(own=True, clock="virtual", nodes=1, jobs_exit_after="10s")
def test_pods_that_are_hooks_of_a_chart_end_too(kube: Kube) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    kube.apply(make_manifest(PODS, "chart-test", spec, annotations={"helm.sh/hook": "test"}))
    kube.advance(seconds=9)
    assert kube.get("pod/chart-test")["status"]["phase"] == "Running"
    kube.advance(seconds=2)
    assert kube.get("pod/chart-test")["status"]["phase"] == "Succeeded"


@pytest.mark.kube(clock="virtual")
def test_an_annotation_reaches_pods_that_run_already(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply(job())
    kube.advance(hours=1)
    assert not is_complete(kube)
    annotate(kube, "namespace/default", "2h")
    ends_after(kube, 3600)

    kube.apply(job("second"))
    annotate(kube, "namespace/default", None)
    annotate(kube, "node/worker", "1s")
    kube.advance(seconds=2)
    assert is_complete(kube, "second")


@pytest.mark.kube(clock="virtual")
def test_a_node_is_added_with_a_time_for_jobs(kube: Kube) -> None:
    kube.add_node("worker", jobs_exit_after="7s")
    kube.apply(job())
    ends_after(kube, 7)


def test_a_node_with_real_drivers_has_the_control_planes_setting(tmp_path: Any) -> None:
    from kubedra import ControlPlane

    with ControlPlane(jobs_exit_after="1s") as plane:
        kube = Kube(plane)
        try:
            kube.add_node("real", plugin_dir=tmp_path)
            kube.apply(job())
            kube.wait("job/hook", "condition=Complete", fail_fast=False)
        finally:
            kube.close()


@pytest.mark.parametrize(("text", "seconds"), [("2", 2), ("0.5s", 0.5), ("5m", 300), ("1h30m", 5400), ("never", None)])
def test_running_times_are_seconds_or_durations(text: str, seconds: float | None) -> None:
    pod = make_manifest(PODS, "p", annotations={EXIT_AFTER: text})
    found = exit_after(pod, "c")
    assert (None if found is None else found.total_seconds()) == seconds
