"""storage.k8s.io and ReplicationControllers: defaults, errors, valid changes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from apiserver.api.objects import Json
from tests.resources.conftest import Judge


def changed(judge: Judge, plural: str, old: Json, **parts: Any) -> list[str]:
    return judge.update(plural, old, {**deepcopy(old), **parts})[1]


def test_a_storage_class_deletes_and_binds_at_once_unless_it_says_otherwise_and_stays_so(judge: Judge) -> None:
    made, errors = judge.create("storageclasses", {"provisioner": "Example.com/Disks", "parameters": {"a": "b"}})
    assert (made["reclaimPolicy"], made["volumeBindingMode"], errors) == ("Delete", "Immediate", [])
    other = {"provisioner": "x", "parameters": {"a": "c"}, "reclaimPolicy": "Retain", "allowVolumeExpansion": True}
    assert changed(judge, "storageclasses", made, **other) == [
        'parameters: Invalid value: {"a":"c"}: field is immutable',
        'provisioner: Invalid value: "x": field is immutable',
        'reclaimPolicy: Invalid value: "Retain": field is immutable',
    ]


def test_a_class_with_thousands_of_equal_topologies_is_told_of_some_repetitions(judge: Judge) -> None:
    """The number of errors is limited, because pairs grow with the square of the list."""
    equal = [{"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}] * 3000
    errors = judge.create("storageclasses", {"provisioner": "x", "allowedTopologies": equal})[1]
    assert len(errors) == 1000
    assert errors[0] == 'allowedTopologies[1].matchLabelExpressions: Duplicate value: ""'


def test_topologies_of_a_class_name_keys_and_values_once(judge: Judge) -> None:
    wrong = {"matchLabelExpressions": [{"key": "a", "values": ["x", "x"]}, {"key": "a", "values": []}]}
    right = {"matchLabelExpressions": [{"key": "b", "values": ["y"]}]}
    errors = judge.create("storageclasses", {"provisioner": "x", "allowedTopologies": [wrong, right, right]})[1]
    path = "allowedTopologies[0].matchLabelExpressions"
    assert errors == [
        f'{path}[0].values[1]: Duplicate value: "x"',
        f"{path}[1].values: Required value",
        f'{path}[1].key: Duplicate value: "a"',
        'allowedTopologies[2].matchLabelExpressions: Duplicate value: ""',
    ]


def test_a_driver_of_a_node_changes_only_in_how_much_it_takes_on(judge: Judge) -> None:
    driver = {"name": "d.example.com", "nodeID": "n", "topologyKeys": ["zone"], "allocatable": {"count": 1}}
    made = judge.create_valid("csinodes", {"spec": {"drivers": [driver]}})
    assert changed(judge, "csinodes", made, spec={"drivers": [{**driver, "allocatable": {"count": 2}}]}) == []
    shown = '{"Name":"d.example.com","NodeID":"m","TopologyKeys":["zone"],"Allocatable":null}'
    assert changed(judge, "csinodes", made, spec={"drivers": [{**driver, "nodeID": "m"}]}) == [
        f"spec.drivers: Invalid value: {shown}: field is immutable"
    ]
    fixed = Judge((1, 34))
    assert len(changed(fixed, "csinodes", made, spec={"drivers": [{**driver, "allocatable": {"count": 2}}]})) == 1
    assert changed(judge, "csinodes", made, spec={"drivers": []}) == []


@pytest.mark.parametrize(("gate", "field", "value"), [
    ("MutableCSINodeAllocatableCount", "nodeAllocatableUpdatePeriodSeconds", 10), ("SELinuxMountReadWriteOncePod", "seLinuxMount", True),
    ("CSIServiceAccountTokenSecrets", "serviceAccountTokenInSecrets", True),
])  # fmt: skip
def test_fields_of_a_driver_go_with_their_gates(gate: str, field: str, value: Any) -> None:
    spec = {"tokenRequests": [{"audience": "a"}], field: value}
    off, on = Judge((1, 35), {gate: False}), Judge((1, 35), {gate: True})
    kept, errors = on.create("csidrivers", {"spec": spec})
    assert (kept["spec"][field], errors) == (value, [])
    assert field not in off.create("csidrivers", {"spec": spec})[0]["spec"]
    assert off.update("csidrivers", kept, deepcopy(kept))[0]["spec"][field] == value


def test_a_changed_driver_is_a_new_generation_and_its_lifecycles_stay(judge: Judge) -> None:
    made, _ = judge.create("csidrivers", {"spec": {}})
    assert made["spec"]["fsGroupPolicy"] == "ReadWriteOnceWithFSType"
    assert made["spec"]["volumeLifecycleModes"] == ["Persistent"]
    assert "generation" not in made["metadata"]
    new, errors = judge.update("csidrivers", made, {**deepcopy(made), "spec": {**made["spec"], "podInfoOnMount": True}})
    assert (new["metadata"]["generation"], errors) == (1, [])
    spec = {**made["spec"], "volumeLifecycleModes": ["Ephemeral"], "attachRequired": False}
    assert changed(judge, "csidrivers", made, spec=spec) == [
        "spec.attachedRequired: Invalid value: false: field is immutable",
        'spec.volumeLifecycleModes: Invalid value: ["Ephemeral"]: field is immutable',
    ]


def test_an_attachment_is_of_one_volume_and_stays_so(judge: Judge) -> None:
    spec = {"attacher": "d", "source": {"persistentVolumeName": "v"}, "nodeName": "n"}
    made, errors = judge.create("volumeattachments", {"spec": spec, "status": {"attached": True}})
    assert (made["status"], errors) == ({"attached": False}, [])
    shown = '{"Attacher":"d","Source":{"PersistentVolumeName":"w","InlineVolumeSpec":null},"NodeName":"n"}'
    spec = {**made["spec"], "source": {"persistentVolumeName": "w"}}
    assert changed(judge, "volumeattachments", made, spec=spec) == [f"spec: Invalid value: {shown}: field is immutable"]
    inline = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"}, "hostPath": {"path": "/a"}}
    assert judge.create("volumeattachments", {"spec": {**made["spec"], "source": {"inlineVolumeSpec": inline}}})[1] == [
        "spec.source.inlineVolumeSpec.capacity: Forbidden: may not be specified in the context of inline volumes",
        "spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes",
    ]


def test_a_capacity_is_about_one_class_and_topology(judge: Judge) -> None:
    made = judge.create_valid(
        "csistoragecapacities",
        {"storageClassName": "c", "nodeTopology": {"matchLabels": {"a": "b"}}, "capacity": "1Gi"},
    )
    assert changed(judge, "csistoragecapacities", made, storageClassName="d", nodeTopology={}, capacity="-1") == [
        'capacity: Invalid value: "-1": must be greater than or equal to 0',
        "nodeTopology: Invalid value: {}: field is immutable",
        'storageClassName: Invalid value: "d": field is immutable',
    ]


def test_a_replication_controller_selects_by_the_labels_of_its_template(judge: Judge) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    made, errors = judge.create("replicationcontrollers", {"spec": {"template": template}})
    assert made["spec"]["selector"] == made["metadata"]["labels"] == {"a": "b"}
    assert (made["spec"]["replicas"], errors) == (1, [])
    assert judge.create("replicationcontrollers", {"spec": {"selector": {"x": "y"}, "template": template}})[1] == [
        'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`'
    ]
    missing = ["spec.selector: Required value", "spec.template: Required value"]
    assert judge.create("replicationcontrollers", {"spec": {}})[1] == missing
    status = {"replicas": 1, "readyReplicas": 2, "availableReplicas": 3}
    assert judge.update_status("replicationcontrollers", made, status)[1] == [
        "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
        "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
        "status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas",
    ]


def test_a_runtime_class_keeps_its_handler_and_tolerates_each_taint_once(judge: Judge) -> None:
    made = judge.create_valid("runtimeclasses", {"handler": "nvidia", "overhead": {"podFixed": {"cpu": "250m"}}})
    assert changed(judge, "runtimeclasses", made, handler="other") == [
        'handler: Invalid value: "other": field is immutable'
    ]
    assert judge.create("runtimeclasses", {"handler": "h", "overhead": {"podFixed": {"cpu": "-1"}}})[1] == [
        'overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0'
    ]
    toleration = {"key": "k", "operator": "Exists"}
    shown = '{"Key":"k","Operator":"Exists","Value":"","Effect":"","TolerationSeconds":null}'
    scheduling = {"tolerations": [toleration, toleration]}
    assert judge.create("runtimeclasses", {"handler": "h", "scheduling": scheduling})[1] == [
        f"scheduling.tolerations[1]: Duplicate value: {shown}"
    ]
