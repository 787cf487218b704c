"""Waits that end before their time, because nothing is left to happen, and those that must not."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from kubedra import AtRestError, ControlPlane
from kubedra.client.client import Client
from kubedra.pytest_plugin import Kube
from tests.support.objects import pod_manifest

pytestmark = pytest.mark.integration

POD = pod_manifest("web", nodeSelector={"zone": "moon"})
#: Longer than a wait looks on before it asks whether anything is left to happen.
SHORT = 1.8


def test_a_wait_in_vain_ends_when_the_control_plane_is_at_rest_and_says_why(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply(POD)
    with pytest.raises(AtRestError) as caught:
        kube.wait("pod/web", "phase=Running")
    first, second, *status = str(caught.value).splitlines()
    assert first.startswith("pod/web will not reach phase=Running: FailedScheduling: 0/1 nodes are available")
    assert second.startswith("the control plane is idle after ")
    assert "components has queued work" in second
    assert second.endswith("no timer is set); pass fail_fast=False to wait until the timeout")
    assert status[:2] == ["last status:", "  phase: Pending, qosClass: BestEffort"]
    assert status[2].startswith("  condition PodScheduled=False (0/1 nodes are available")


def test_a_wait_goes_on_while_a_timer_falls_due_before_its_end(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply(pod_manifest("job", {"kubedra.dev/exit-after": "2"}, restartPolicy="Never"))
    kube.wait("pod/job", "phase=Succeeded", timeout=60)


def test_a_wait_says_which_timer_comes_too_late(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply(pod_manifest("job", {"kubedra.dev/exit-after": "500"}, restartPolicy="Never"))
    with pytest.raises(AtRestError, match="the next timer, of node-agent, fires in 49"):
        kube.wait("pod/job", "phase=Succeeded", timeout=100)


def waits_to_the_end(kube: Kube, **options: Any) -> bool:
    with pytest.raises(TimeoutError, match=r"did not reach phase=Running within 1\.8 s") as caught:
        kube.wait("pod/web", "phase=Running", timeout=SHORT, **options)
    return not isinstance(caught.value, AtRestError)


def test_a_wait_goes_on_while_another_client_watches(kube: Kube) -> None:
    kube.apply(POD)
    seen = threading.Event()
    with Client(kube.url) as operator:

        def watch() -> None:
            for _ in operator.watch("/api/v1/pods", timeout=60, timeoutSeconds="3"):
                seen.set()

        thread = threading.Thread(target=watch)
        thread.start()
        seen.wait()
        assert waits_to_the_end(kube)
        thread.join()


def test_a_wait_goes_on_while_a_command_of_the_test_runs(kube: Kube) -> None:
    kube.apply(POD)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as command:
        assert waits_to_the_end(kube)
        command.communicate(b"\n")


def test_a_wait_may_be_told_to_go_on(kube: Kube) -> None:
    kube.apply(POD)
    assert waits_to_the_end(kube, fail_fast=False)


def test_the_environment_sets_the_default_timeout(kube: Kube, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEDRA_WAIT_TIMEOUT", "0.1")
    kube.apply(POD)
    with pytest.raises(TimeoutError, match=r"did not reach phase=Running within 0\.1 s"):
        kube.wait("pod/web", "phase=Running")


def test_of_a_server_without_controllers_nothing_is_known() -> None:
    with ControlPlane(controllers=False) as plane, plane.client() as client:
        found = client.request("GET", "/-/idle")
        assert found == {
            "resting": False, "components": [], "busy": [], "next": None, "watches": 0, "quietSeconds": None,
        }  # fmt: skip


def test_what_real_drivers_will_do_cannot_be_foreseen(tmp_path: Path) -> None:
    with ControlPlane(nodes=1, args=[f"--plugin-dir={tmp_path}"]) as plane, plane.client() as client:
        assert client.request("GET", "/-/idle")["next"] == {"component": "node-agent", "seconds": 0}


@pytest.mark.kube(clock="virtual")
def test_in_virtual_time_a_wait_in_vain_shows_the_warnings_too(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply(POD)
    with pytest.raises(TimeoutError, match="FailedScheduling: 0/1 nodes"):
        kube.wait("pod/web", "phase=Running", timeout=30)
