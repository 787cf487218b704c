"""Profiles: hardware that nodes publish from data files."""

from __future__ import annotations

from pathlib import Path

import pytest

from apiserver.api.objects import Json
from apiserver.options.flags import SettingsError
from apiserver.options.settings import read
from kubedra import ControlPlane, profiles
from kubedra.cli import main
from kubedra.profiles.capture import profile_of
from kubedra.profiles.pools import check
from kubedra.pytest_plugin import Kube
from tests.support.patience import wait_until

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("name", profiles.names())
def test_every_profile_is_accepted_by_the_server(kube: Kube, name: str) -> None:
    kube.add_node("n1", profile=name)
    profile = profiles.load(name)
    pools = profile.pools("n1")
    check(pools)
    wanted = sorted(
        device["name"] for pool in pools.values() for part in pool.slices for device in part.get("devices", ())
    )
    wait_until(
        lambda: len(kube.list("resourceslices")) == sum(len(pool.slices) for pool in pools.values()), "its slices"
    )
    there = [device for item in kube.list("resourceslices") for device in item["spec"].get("devices") or ()]
    assert sorted(device["name"] for device in there) == wanted
    assert {c["metadata"]["name"] for c in kube.list("deviceclasses")} == set(profile.content["classes"])


def pod_with(requests: list[Json], constraints: tuple[Json, ...] = ()) -> list[Json]:
    spec = {"devices": {"requests": requests, "constraints": list(constraints)}}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": spec}
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "c"}]}}
    body = {"containers": [container], "resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}
    return [claim, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": body}]


def exactly(name: str, device_class: str, *selectors: str) -> Json:
    chosen = {"deviceClassName": device_class, "selectors": [{"cel": {"expression": text}} for text in selectors]}
    return {"name": name, "exactly": chosen}


def test_partitions_of_one_gpu_share_its_counters(kube: Kube) -> None:
    kube.add_node("n1", profile="mig")
    sizes = {"a": "1g.5gb", "b": "2g.10gb", "c": "3g.20gb"}
    requests = [
        exactly(name, "mig.nvidia.com", f"device.attributes['gpu.nvidia.com'].profile == '{size}'")
        for name, size in sizes.items()
    ]
    kube.apply(pod_with(requests, ({"matchAttribute": "gpu.nvidia.com/parentUUID"},)))
    kube.wait("pod/p", "phase=Running")
    results = kube.get("resourceclaim/c")["status"]["allocation"]["devices"]["results"]
    assert len({result["device"].split("-mig-")[0] for result in results}) == 1


def test_a_gpu_and_a_nic_are_aligned_by_their_pcie_root(kube: Kube) -> None:
    kube.add_node("n1", profile="nic+gpu")
    requests = [exactly("gpu", "gpu.nvidia.com"), exactly("nic", "efa.networking.k8s.aws")]
    kube.apply(pod_with(requests, ({"matchAttribute": "resource.kubernetes.io/pcieRoot"},)))
    kube.wait("pod/p", "phase=Running")


def test_up_can_start_with_nodes_of_a_profile() -> None:
    with ControlPlane(nodes=2, args=("--profile=gaudi",)) as plane, plane.client() as client:
        wait_until(lambda: len(client.list("resourceslices")) == 2, "a slice for each node")
        assert {item["spec"]["driver"] for item in client.list("resourceslices")} == {"gaudi.intel.com"}


def test_an_unknown_profile_is_an_error_that_lists_the_known_ones(kube: Kube) -> None:
    with pytest.raises(SettingsError, match="--profile x1: use one of 8xa100, 8xh100"):
        read(["--nodes=1", "--profile=x1"])
    with pytest.raises(ValueError, match="no profile 'x1'; use one of 8xa100"):
        kube.add_node("n1", profile="x1")


def test_profiles_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profiles"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == profiles.names()


def test_a_captured_node_is_a_profile_for_others(
    kube: Kube, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kube.add_node("n1", profile="mig")
    # A text with braces and the name of the node.
    device = {"name": "odd", "attributes": {"text": {"string": "{i} of n1"}}}
    pool = {"name": "odd", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "odd.example.com", "nodeName": "n1", "pool": pool, "devices": [device]}
    kube.apply({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "odd"}, "spec": spec})
    file = tmp_path / "mine.yaml"
    assert main(["profiles", "capture", "n1", "-o", str(file), f"--kubeconfig={kube.kubeconfig}"]) == 0
    kube.add_node("n2", profile=str(file))

    def list_published(node: str) -> list[Json]:
        slices = [item["spec"] for item in kube.list("resourceslices") if item["spec"].get("nodeName") == node]
        return sorted((d for spec in slices for d in spec.get("devices") or ()), key=lambda d: str(d["name"]))

    wait_until(lambda: len(list_published("n2")) == len(list_published("n1")), "the devices of the second node")
    odd, *others = reversed(list_published("n2"))
    assert odd["attributes"] == {"text": {"string": "{i} of n2"}}
    assert others == list(reversed(list_published("n1")[:-1]))
    assert main(["profiles", "capture", "n3", f"--kubeconfig={kube.kubeconfig}"]) == 2
    assert "no ResourceSlice of node n3: nothing to capture" in capsys.readouterr().err


def captured(node: str, spec: Json) -> Json:
    """Return the only group of a profile captured from a node with one slice."""
    item = {"metadata": {"name": "s"}, "spec": {"driver": "d", "nodeName": node, **spec}}
    (group,) = profile_of(node, [item], ())["drivers"]["d"]
    return dict(group)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("n1", "{node}"),
        ("n1-gpu-0 in n1.example.com, n1_a/n1", "{node}-gpu-0 in {node}.example.com, {node}_a/{node}"),
        ("gen10 un1 n12 én1 N1", "gen10 un1 n12 én1 N1"),
        ("{n1}", "{{{node}}}"),
    ],
)
def test_a_captured_text_has_a_placeholder_for_the_node_name_as_a_word(text: str, written: str) -> None:
    device = {"name": text, "attributes": {"a": {"string": text}, "b": {"strings": [text]}}}
    sets = [{"name": text, "counters": {"c": {"value": "1"}}}]
    assert captured("n1", {"devices": [device], "sharedCounters": sets}) == {
        "counters": [{"name": written, "counters": {"c": {"value": "1"}}}],
        "devices": [{"name": written, "attributes": {"a": {"string": written}, "b": {"strings": [written]}}}],
    }


def test_a_node_may_be_named_like_a_number_of_its_devices() -> None:
    policy = {"default": "1", "validRange": {"min": "1", "step": "1"}}
    numbers = {
        "capacity": {"cores": {"value": "1", "requestPolicy": policy}},
        "consumesCounters": [{"counterSet": "c", "counters": {"c": {"value": "1"}}}],
        "attributes": {"a": {"version": "1.2.3"}, "b": {"versions": ["1.0.0"]}},
    }
    named = {"version": {"string": "of 1"}}
    group = captured("1", {"devices": [{"name": "a", **numbers}, {"name": "b", "attributes": named}]})
    assert group["devices"] == [
        {"name": "a", **numbers}, {"name": "b", "attributes": {"version": {"string": "of {node}"}}},
    ]  # fmt: skip


def test_an_invalid_profile_is_a_one_line_error(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("drivers: {d: [{devices: [{name: '{nothing}'}]}]}")
    with pytest.raises(SettingsError, match=r"bad\.yaml: not a profile: 'nothing'"):
        read(["--nodes=1", f"--profile={file}"])
    with pytest.raises(SettingsError, match=r"none\.yaml: No such file or directory"):
        read(["--nodes=1", f"--profile={tmp_path}/none.yaml"])
