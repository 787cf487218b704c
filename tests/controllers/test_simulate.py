"""Simulations of pods: whether they fit, where, and how full nodes get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.explain.simulate import main
from controllers.explain.simulation import NodeUse, SimulationResult, plot
from kubedra.client.manifests import load
from tests.support.patience import wait_until

pytestmark = pytest.mark.integration

MANIFEST = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.driver == "d"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: two}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, count: 2}}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: i, resources: {claims: [{name: g}], requests: {cpu: "1"}}}]
      resourceClaims: [{name: g, resourceClaimTemplateName: two}]
"""
SLICES = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: on-n}
spec:
  driver: d
  nodeName: n
  pool: {name: n, generation: 1, resourceSliceCount: 1}
  devices: [{name: a}, {name: b}, {name: c}, {name: d}, {name: e}]
"""


@pytest.fixture
def simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(manifest: str, *args: str, slices: str = SLICES, code: int = 0) -> Json:
        (tmp_path / "pods.yaml").write_text(manifest)
        (tmp_path / "slices.yaml").write_text(slices)
        where = () if "--server" in args else ("--slices", str(tmp_path / "slices.yaml"))
        assert main(["-f", str(tmp_path / "pods.yaml"), *where, "-o", "json", *args]) == code
        found: Json = json.loads(capsys.readouterr().out)
        return found

    return run


def placements(found: Json) -> list[tuple[str, str, int]]:
    return [(each["pod"], each["node"], len(each["devices"])) for each in found["pods"]]


def test_replicas_fit_while_devices_are_free(simulated: Any) -> None:
    found = simulated(MANIFEST, code=1)
    assert placements(found) == [("default/web-0", "n", 2), ("default/web-1", "n", 2), ("default/web-2", "", 0)]
    assert found["fitting"] == 2
    assert found["pods"][2]["reason"] == "0/1 nodes are available: 1 cannot allocate all claims."
    (node,) = found["nodes"]
    assert (node["devices"], node["used_before"], node["used"], node["pods"], node["cpu_used"]) == (5, 0, 4, 2, 2.0)
    # The first pod that does not fit is explained.
    assert {change["changes"][0].split(" (")[0] for change in found["why"]["changes"]} >= {"add 1 more device like a"}
    devices = [device for each in found["pods"] for device in each["devices"]]
    assert len(set(devices)) == 4


def test_fill_counts_the_pods_that_fit(simulated: Any) -> None:
    found = simulated(MANIFEST, "--fill")
    assert (found["fitting"], found["filled"], len(found["pods"])) == (2, True, 3)
    assert simulated(MANIFEST, "--replicas", "1")["fitting"] == 1


def test_added_nodes_have_the_hardware_of_a_profile(simulated: Any) -> None:
    manifest = MANIFEST.replace("deviceClassName: gpu,", "deviceClassName: gpu.nvidia.com,")
    found = simulated(manifest, "--profile", "8xh100", "--more-nodes", "2", "--fill")
    assert found["fitting"] == 8
    assert {node["node"]: node["used"] for node in found["nodes"]} == {"n": 0, "more-1": 8, "more-2": 8}


def test_given_nodes_have_their_allocatable_resources(simulated: Any) -> None:
    node = """
---
apiVersion: v1
kind: Node
metadata: {name: n}
status: {allocatable: {cpu: "1500m", memory: 1Gi, pods: "10"}}
"""
    found = simulated(MANIFEST + node, code=1)
    assert found["fitting"] == 1
    assert "Insufficient cpu" in found["pods"][1]["reason"]
    assert (found["nodes"][0]["cpu"], found["nodes"][0]["limited"]) == (1.5, True)


def test_pods_of_a_workload_have_the_labels_of_its_template(simulated: Any) -> None:
    apart = """
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}
"""
    assert simulated(MANIFEST.rstrip("\n") + apart, code=1)["fitting"] == 1


def test_extended_resources_take_devices(simulated: Any) -> None:
    manifest = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {extendedResourceName: example.com/gpu}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: i, resources: {limits: {example.com/gpu: "3"}, requests: {example.com/gpu: "3"}}}]}
"""
    found = simulated(manifest, "--fill")
    assert (found["fitting"], found["nodes"][0]["used"]) == (1, 3)


def test_a_claim_is_shared_by_the_pods_that_reference_it(simulated: Any) -> None:
    pods = "".join(
        f"\n---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers: [{{name: c, image: i}}]\n"
        "  resourceClaims: [{name: g, resourceClaimName: shared}]\n"
        for name in ("one", "two")
    )
    claim = """
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, count: 4}}]}}
"""
    found = simulated(MANIFEST.split("---")[0] + claim + pods)
    assert (found["fitting"], found["nodes"][0]["used"]) == (2, 4)


def test_older_versions_and_other_kinds_may_be_in_the_files(simulated: Any) -> None:
    older = SLICES.replace("resource.k8s.io/v1", "resource.k8s.io/v1beta1").replace("{name: a}", "{name: a, basic: {}}")
    manifest = MANIFEST.replace(
        "resource.k8s.io/v1\nkind: ResourceClaimT", "resource.k8s.io/v1beta1\nkind: ResourceClaimT"
    )
    manifest = manifest.replace("exactly: {deviceClassName: gpu, count: 2}", "deviceClassName: gpu, count: 2")
    found = simulated(manifest + "\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\n", slices=older, code=1)
    assert (found["fitting"], found["left_out"]) == (2, ["Secret"])


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (MANIFEST.replace("replicas: 3", "replica: 3"), 'document 3 (Deployment web): unknown field "spec.replica"'),
        (MANIFEST.split("---")[0], "found no pods and no workloads"),
        ("a: [", "not YAML"),
    ],
)
def test_errors_name_the_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], manifest: str, words: str
) -> None:
    (tmp_path / "pods.yaml").write_text(manifest)
    assert main(["-f", str(tmp_path / "pods.yaml")]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert words in said.err


def test_tables_and_bars_show_the_same_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pods.yaml").write_text(MANIFEST + "\n---\n" + SLICES)
    assert main(["-f", str(tmp_path / "pods.yaml"), "--replicas", "1"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["POD", "NODE", "DEVICES"]
    assert table[1].split(maxsplit=2) == ["default/web-0", "n", "d/n/a, d/n/b"]
    assert [line.split() for line in table[3:5]] == [
        ["NODE", "DEVICES", "BEFORE", "PODS", "CPU", "MEMORY"],
        ["n", "2/5", "0", "1", "-", "-"],
    ]
    assert main(["-f", str(tmp_path / "pods.yaml"), "--replicas", "1", "-o", "plot"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"n  {'▓' * 16}{'░' * 24}  2/5"


def test_devices_shared_by_nodes_have_their_own_row(simulated: Any) -> None:
    slices = SLICES.replace("nodeName: n", "allNodes: true")
    node = "\n---\napiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {allocatable: {cpu: 9, pods: 9}}\n"
    found = simulated(MANIFEST + node, slices=slices, code=1)
    rows = [(each["node"], each["devices"], each["used"], each["pods"]) for each in found["nodes"]]
    assert rows == [("n", 0, 0, 2), ("(shared)", 5, 4, 0)]


def test_bars_show_devices_used_before() -> None:
    use = NodeUse("n", 4, 1, 3, 0, 0, 0, 0, 0, limited=True)
    bare = NodeUse("m", 0, 0, 0, 0, 0, 0, 0, 0, limited=True)
    lines = plot(SimulationResult([], [bare], 3, None, [], filled=True), width=8).splitlines()
    assert (lines[0], lines[-1]) == ("m  ░░░░░░░░  0/0", "at least 3 pods fit")
    assert plot(SimulationResult([], [use], 0, None, [], filled=False), width=8).splitlines()[0] == "n  ██▓▓▓▓░░  3/4"


def test_a_simulation_on_a_cluster_matches_the_real_placement(kube: Any, simulated: Any) -> None:
    kube.add_node("one", devices=3)
    kube.add_node("two", devices=2)
    gpus = MANIFEST.replace('"d"', '"gpu.example.com"')
    pod = load(gpus)[2]["spec"]["template"]["spec"]
    kube.apply(load(gpus)[:2])

    def apply(name: str) -> None:
        kube.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod})

    apply("first")
    kube.wait("pod/first", "phase=Running")
    before = kube.list("pods")
    # Template and class come from the cluster.
    found = simulated(gpus.split("---")[2], "--server", kube.url, code=1)
    assert kube.list("pods") == before
    assert found["fitting"] == 1
    assert sum(node["used_before"] for node in found["nodes"]) == 2
    for number in range(3):
        apply(f"web-{number}")
    wait_until(
        lambda: sum(bool(each["status"].get("conditions")) for each in kube.list("pods")) == 4, "all pods were tried"
    )
    assert sum("nodeName" in each["spec"] for each in kube.list("pods")) == 1 + found["fitting"]
