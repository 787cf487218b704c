"""The driver on a node: what pods get, what the API shows, and what crashes leave."""

import pytest
from accelerators import Accelerators
from conftest import MANIFESTS


def test_the_process_of_a_pod_sees_its_accelerator(kube, machine):
    kube.apply(MANIFESTS)
    kube.wait("pod/job", "phase=Running")
    kube.wait("pod/job", lambda _: kube.logs("pod/job") == "acc-1 is time-sliced\n", fail_fast=False)
    (reported,) = kube.get("resourceclaim/accelerator")["status"]["devices"]
    assert (reported["device"], reported["data"]) == ("acc-1", {"celsius": 20})
    kube.delete("pod/job")
    kube.wait("pod/job", "delete")
    assert machine.cdi_files() == []


def test_an_unknown_mode_is_an_event_of_the_pod(kube, machine):
    kube.apply((MANIFESTS / "job.yaml").read_text().replace("time-sliced", "shared"))
    kube.wait("pod/job", lambda _: "mode shared is unknown" in "".join(e["message"] for e in kube.events("pod/job")))


def test_a_hot_accelerator_is_unhealthy_in_the_status_of_its_pod(kube, machine):
    kube.apply(MANIFESTS)
    kube.wait("pod/job", "phase=Running")
    machine.heat(95)
    machine.driver.check(machine.running)
    kube.wait("pod/job", lambda pod: health(pod) == ("Unhealthy", "95 °C"))


def health(pod):
    for status in pod["status"]["containerStatuses"][0].get("allocatedResourcesStatus", ()):
        return status["resources"][0]["health"], status["resources"][0].get("message")
    return None


@pytest.mark.parametrize("point", ["prepared", "unprepared"])
def test_a_kubelet_that_crashes_prepares_and_releases_each_claim(kube, machine, point):
    kubelet = machine.kubelet
    if point == "unprepared":
        kube.apply(MANIFESTS)
        kube.wait("pod/job", "phase=Running")
        kubelet.kill(at=point)
        kube.delete("pod/job")
    else:
        kubelet.kill(at=point)
        kube.apply(MANIFESTS)
    kubelet.wait_killed()
    assert len(machine.cdi_files()) == (point == "prepared")
    kubelet.start()
    if point == "prepared":
        kube.wait("pod/job", "phase=Running")
        assert len(machine.cdi_files()) == 1
        kube.delete("pod/job")
    kube.wait("pod/job", "delete")
    assert machine.cdi_files() == []
    assert not kubelet.prepared()


@pytest.mark.kube(clock="virtual")
def test_a_pod_leaves_a_hot_accelerator_after_the_five_minutes_that_it_tolerates(kube, machine):
    kube.apply(MANIFESTS)
    real_time = kube.client()  # `kube.wait` would advance the virtual time; kubelet and driver have real time
    real_time.wait("pod/job", "phase=Running", fail_fast=False)
    machine.heat(95)
    machine.driver.check(machine.running)
    real_time.wait("pod/job", lambda pod: health(pod) == ("Unhealthy", "95 °C"), fail_fast=False)
    kube.advance(minutes=4)
    assert "deletionTimestamp" not in kube.get("pod/job")["metadata"]
    kube.advance(minutes=2)
    real_time.wait("pod/job", "delete", fail_fast=False)


def test_the_inventory_becomes_devices(tmp_path):
    (tmp_path / "inventory").write_text('{"a": {"model": "A1", "memory": "1Gi", "celsius": 99}}')
    (device,) = Accelerators(tmp_path / "inventory", tmp_path, None).devices()
    assert device["capacity"] == {"memory": {"value": "1Gi"}}
    assert [taint["effect"] for taint in device["taints"]] == ["NoExecute"]
