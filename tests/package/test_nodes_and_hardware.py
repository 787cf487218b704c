"""Nodes of a control plane, the components that run them, and the hardware that they have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apiserver.command.start import choose_components
from apiserver.options.flags import SettingsError
from apiserver.options.settings import read
from kubedra import ControlPlane
from kubedra.plane.control_plane import StartError
from kubedra.pytest_plugin import Kube
from tests.support.objects import pod_manifest

pytestmark = pytest.mark.integration

NEEDED = ["node-lifecycle-controller", "node-agent"]


@pytest.mark.kube(own=True, controllers=False, nodes=2, devices="gpu.example.com")
def test_nodes_without_controllers_are_ready_for_pods_that_others_bind(kube: Kube) -> None:
    def free(node: dict[str, Any]) -> bool:
        return not node["spec"].get("taints")

    assert sorted(kube.client().request("GET", "/-/rest")["components"]) == sorted(NEEDED)
    for _ in range(2):
        nodes = [kube.wait(f"node/node-{number}", free) for number in (1, 2)]
        assert {c["status"] for node in nodes for c in node["status"]["conditions"] if c["type"] == "Ready"} == {"True"}
        assert sorted(item["spec"]["nodeName"] for item in kube.list("resourceslices")) == ["node-1", "node-2"]
        kube.plane.reset()
    kube.apply(pod_manifest("p", nodeName="node-1"))
    kube.wait("pod/p", "phase=Running")


@pytest.mark.parametrize(
    ("flags", "components"),
    [
        ([], []),
        (["--nodes=0"], []),
        (["--nodes=1"], NEEDED),
        (["--nodes=1", "--controllers=scheduler,node-agent"], ["scheduler", "node-agent"]),
        (["--controllers=job"], ["job-controller"]),
    ],
)
def test_components_that_nodes_need_run_unless_others_are_named(
    flags: list[str], components: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert choose_components(read(flags)) == components
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("names", ["none", "", "scheduler", "*,-node-agent"])
def test_nodes_whose_agent_is_left_out_are_told(names: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "node-agent" not in choose_components(read(["--nodes=2", f"--controllers={names}"]))
    warning = "warning: --nodes 2 does nothing: --controllers leaves out the node-agent\n"
    assert capsys.readouterr().out == warning


@pytest.mark.parametrize("flags", [["--run"], ["--run", "--controllers=*,-node-agent"]])
def test_containers_cannot_run_without_the_agent_of_nodes(flags: list[str]) -> None:
    with pytest.raises(SettingsError, match="--run: needs the node-agent, add it to --controllers"):
        choose_components(read(flags))
    assert "node-agent" in choose_components(read(["--run", "--nodes=1"]))


@pytest.mark.parametrize("flag", ["--devices=gpu.example.com", "--profile=mig"])
def test_hardware_without_nodes_is_a_mistake(flag: str, tmp_path: Path) -> None:
    said = f"{flag.replace('=', ' ')} needs --nodes"
    with pytest.raises(SettingsError, match=said):
        read([flag])
    assert read([flag, "--nodes=0"]).nodes == 0
    with pytest.raises(StartError, match=said):
        ControlPlane(args=[flag], data_dir=tmp_path).start()


@pytest.mark.parametrize("real", [{"run": True}, {"plugin_dir": "x"}, {"registry_dir": "x"}])
@pytest.mark.parametrize(
    "emulated", [{"devices": 8}, {"slices": ["slices.yaml"]}, {"profile": "mig"}, {"capacity": {"cpu": "1"}}]
)
def test_a_node_with_real_drivers_has_no_emulated_devices(
    kube: Kube, emulated: dict[str, Any], real: dict[str, Any]
) -> None:
    (option,) = emulated
    with pytest.raises(
        ValueError, match=f"node n: {option} cannot be combined with driver, plugin_dir, registry_dir or run"
    ):
        kube.add_node("n", **emulated, **real)
    assert kube.list("nodes") == []


def test_devices_without_nodes_are_a_mistake_in_a_fixture_too() -> None:
    with pytest.raises(StartError, match=r"--devices d\.example\.com needs --nodes"):
        ControlPlane(devices="d.example.com").start()
    assert read(["--devices=none"]).devices == "none"
    assert read([]).devices == "gpu.example.com"
