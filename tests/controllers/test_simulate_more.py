"""Simulations with volumes, groups and priorities."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.explain.simulate import main

pytestmark = pytest.mark.integration

NODES = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {kubernetes.io/hostname: n1, rack: a}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {kubernetes.io/hostname: n2, rack: b}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
---
"""
STATEFUL_SET = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: v}
spec:
  capacity: {storage: 10Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: local
  local: {path: /data}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: rack, operator: In, values: [b]}]}]}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: i, volumeMounts: [{name: data, mountPath: /d}]}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: local, resources: {requests: {storage: 5Gi}}}
"""
GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"


def simulated(
    capsys: pytest.CaptureFixture[str], directory: Path, manifest: str, *args: str, code: int = 0, output: str = "json"
) -> Any:
    (directory / "pods.yaml").write_text(NODES + manifest)
    assert main(["-f", str(directory / "pods.yaml"), "-o", output, *args]) == code
    printed = capsys.readouterr().out
    return json.loads(printed) if output == "json" else printed


def nodes(found: Json) -> dict[str, str]:
    return {each["pod"]: each["node"] for each in found["pods"]}


def test_each_pod_of_a_stateful_set_gets_its_own_volume_while_volumes_are_free(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = simulated(capsys, tmp_path, STATEFUL_SET, code=1)
    assert nodes(found) == {"default/db-0": "n2", "default/db-1": ""}
    assert "volumes of its class: 1 bound to other claims; the class has no provisioner" in found["why"]["report"]
    assert "add a volume of 5Gi of class local reachable from node n1" in found["why"]["report"]


def test_volumes_are_provisioned_for_claims_of_a_class_with_provisioner(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = STATEFUL_SET.replace("kubernetes.io/no-provisioner", "csi.example.com")
    limited = """
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: n1}
spec: {drivers: [{name: csi.example.com, nodeID: n1, allocatable: {count: 1}}]}
---
"""
    at_once = manifest.replace("WaitForFirstConsumer", "Immediate")
    for each in (manifest, at_once):
        assert "" not in nodes(simulated(capsys, tmp_path, each, "--replicas=3")).values()
    # Node n1 attaches at most one provisioned volume.
    where = list(nodes(simulated(capsys, tmp_path, limited + manifest, "--replicas=9")).values())
    assert where.count("n1") <= 1


GROUP = """
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: g}
spec: {schedulingPolicy: {gang: {minCount: COUNT}}, schedulingConstraints: {topology: [{key: rack}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: COUNT
  template:
    spec:
      restartPolicy: Never
      schedulingGroup: {podGroupName: g}
      containers: [{name: c, image: i, resources: {requests: {cpu: "2"}}}]
"""


def test_a_gang_is_placed_completely_or_not_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = simulated(capsys, tmp_path, GROUP.replace("COUNT", "2"), GATES)
    assert len(set(nodes(found).values())) == 1
    found = simulated(capsys, tmp_path, GROUP.replace("COUNT", "3"), GATES, code=1)
    assert set(nodes(found).values()) == {""}
    assert found["why"]["kind"] == "PodGroup"
    assert [each["placed"] for each in found["why"]["placements"]] == [2, 2]
    # Without the gate each pod is placed separately.
    found = simulated(capsys, tmp_path, GROUP.replace("COUNT", "3"))
    assert "" not in nodes(found).values()
    found = simulated(capsys, tmp_path, GROUP.replace("COUNT", "1"), GATES, "--fill")
    assert found["fitting"] == 4


PRIORITIES = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 100
---
apiVersion: v1
kind: Pod
metadata: {name: low}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "4"}}}], nodeSelector: {rack: a}}
---
apiVersion: v1
kind: Pod
metadata: {name: urgent}
spec:
  priorityClassName: high
  nodeSelector: {rack: a}
  containers: [{name: c, image: i, resources: {requests: {cpu: "3"}}}]
"""


def test_pods_are_preempted_only_with_the_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = simulated(capsys, tmp_path, PRIORITIES, code=1)
    assert nodes(found) == {"default/low": "n1", "default/urgent": ""}
    assert "preemption would evict 1 pod from node n1: default/low" in found["why"]["report"]
    found = simulated(capsys, tmp_path, PRIORITIES, "--preempt")
    assert found["pods"][1] | {"devices": []} == {
        "pod": "default/urgent", "node": "n1", "devices": [], "reason": "", "ended": ["default/low"],
    }  # fmt: skip
    assert "preempts default/low" in simulated(capsys, tmp_path, PRIORITIES, "--preempt", output="table")
