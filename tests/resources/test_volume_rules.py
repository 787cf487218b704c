"""PersistentVolumes and PersistentVolumeClaims: defaults, errors, valid changes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.api.types.core.persistentvolumes import PersistentVolumeSpec
from apiserver.api.types.core.persistentvolumesources import PersistentVolumeSource
from apiserver.api.validation.internal_values import internal
from apiserver.registry.definition.table import row_of
from tests.resources.conftest import NOW, Judge, find

STAMP = "2026-01-02T03:04:05Z"
CSI = {"driver": "csi.example.com", "volumeHandle": "v"}
MODES = '"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"'


def volume(**spec: Any) -> Json:
    return {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **(spec or {"csi": CSI})}}


def claim(**spec: Any) -> Json:
    return {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}}


def change(judge: Judge, old: Json, **spec: Any) -> list[str]:
    plural = "persistentvolumeclaims" if "resources" in old["spec"] else "persistentvolumes"
    return judge.update_spec(plural, old, **spec)[1]


def test_a_new_volume_is_pending_since_now_whatever_its_author_says_of_its_status(judge: Judge) -> None:
    made = judge.create_valid("persistentvolumes", {**volume(), "status": {"phase": "Bound"}})
    assert made["status"] == {"phase": "Pending", "lastPhaseTransitionTime": STAMP}
    assert (made["spec"]["persistentVolumeReclaimPolicy"], made["spec"]["volumeMode"]) == ("Retain", "Filesystem")


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"nfs": {}}, ["spec.nfs.server: Required value", "spec.nfs.path: Required value", 'spec.nfs.path: Invalid value: "": must be an absolute path']),
        ({"local": {"path": "/a"}}, ["spec.nodeAffinity: Required value: Local volume requires node affinity"]),
        ({"hostPath": {"path": "//"}, "persistentVolumeReclaimPolicy": "Recycle"},
         ["spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"]),
        ({"hostPath": {"path": "/a"}, "nfs": {}, "cephfs": {}},
         ["spec.nfs: Forbidden: may not specify more than 1 volume type", "spec.cephFS: Forbidden: may not specify more than 1 volume type"]),
        ({"quobyte": {"registry": "a:1,[::1]:2,::1:3", "volume": "v"}},
         ['spec.quobyte.registry: Invalid value: "a:1,[::1]:2,::1:3": must be a host:port pair or multiple pairs separated by commas']),
        ({"iscsi": {"targetPortal": "p", "iqn": "iqn.2001-04.example", "lun": 256}},
         ['spec.iscsi.iqn: Invalid value: "iqn.2001-04.example": must be valid format',
          "spec.iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive"]),
        ({"csi": {**CSI, "nodePublishSecretRef": {"name": "a"}, "nodeStageSecretRef": {}}}, ["spec.csi.nodePublishSecretRef.namespace: Required value"]),
        ({"accessModes": ["ReadWriteOncePod", "ReadOnlyMany"], "csi": CSI},
         ["spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"]),
    ],
)  # fmt: skip
def test_a_volume_has_one_source_that_says_what_it_needs(judge: Judge, spec: Json, wrong: list[str]) -> None:
    assert judge.create("persistentvolumes", volume(**spec))[1] == wrong


def test_the_source_of_a_volume_stays_and_one_secret_may_be_added_once(judge: Judge) -> None:
    made, _ = judge.create("persistentvolumes", volume())
    assert change(judge, made, csi={**CSI, "volumeHandle": "w"})[0].startswith(
        "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n@@ -"
    )
    secret = {"name": "s", "namespace": "n"}
    assert change(judge, made, csi={**CSI, "controllerExpandSecretRef": secret}) == []
    kept, _ = judge.create("persistentvolumes", volume(csi={**CSI, "controllerExpandSecretRef": secret}))
    assert change(judge, kept, csi=CSI) != []


def test_a_label_of_the_node_affinity_may_become_its_successor_only(judge: Judge) -> None:
    def affinity(key: str) -> Json:
        term = {"matchExpressions": [{"key": key, "operator": "In", "values": ["x"]}]}
        return {"required": {"nodeSelectorTerms": [term]}}

    old = volume(csi=CSI, nodeAffinity=affinity("failure-domain.beta.kubernetes.io/zone"))
    made, _ = judge.create("persistentvolumes", old)
    assert change(judge, made, nodeAffinity=affinity("topology.kubernetes.io/zone")) == []
    assert change(judge, made, nodeAffinity=affinity("topology.kubernetes.io/region")) != []
    mutable = Judge(gates={"MutablePVNodeAffinity": True})
    assert change(mutable, made, nodeAffinity=affinity("any")) == []


def test_a_node_affinity_that_is_taken_away_or_shortened_is_refused_like_any_other_change(judge: Judge) -> None:
    labels = [{"key": key, "operator": "Exists"} for key in ("a", "b")]
    terms = {"required": {"nodeSelectorTerms": [{"matchExpressions": labels}]}}
    old = judge.create("persistentvolumes", volume(csi=CSI, nodeAffinity=terms))[0]
    shorter = {"required": {"nodeSelectorTerms": [{"matchExpressions": labels[:1]}]}}
    (error,) = change(judge, old, nodeAffinity=shorter)
    assert error.startswith("nodeAffinity: Invalid value: ")


def test_a_change_of_phase_is_stamped_unless_the_client_stamps_it(judge: Judge) -> None:
    status = {"phase": "Pending", "lastPhaseTransitionTime": "2020-01-01T00:00:00Z"}
    old = {"metadata": {"name": "a"}, "spec": volume()["spec"], "status": status}

    def stamped(**status: Any) -> str | None:
        new = {"metadata": dict(old["metadata"]), "spec": old["spec"], "status": {**old["status"], **status}}
        stored: dict[str, str] = judge.update("persistentvolumes", old, new, status=True)[0]["status"]
        return stored.get("lastPhaseTransitionTime")

    assert stamped(phase="Bound") == STAMP
    assert stamped(phase="Bound", lastPhaseTransitionTime="2021-01-01T00:00:00Z") == "2021-01-01T00:00:00Z"
    assert stamped(reason="r", lastPhaseTransitionTime=None) == "2020-01-01T00:00:00Z"


def test_both_fields_for_the_source_of_a_claim_say_the_same(judge: Judge) -> None:
    snapshot = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
    other = {"apiGroup": "example.com", "kind": "Thing", "name": "t"}
    assert judge.create("persistentvolumeclaims", claim(dataSource=snapshot))[0]["spec"]["dataSourceRef"] == snapshot
    assert judge.create("persistentvolumeclaims", claim(dataSourceRef=other))[0]["spec"]["dataSource"] == other
    assert "dataSource" not in judge.create("persistentvolumeclaims", claim(dataSource=other))[0]["spec"]
    elsewhere, _ = judge.create("persistentvolumeclaims", claim(dataSourceRef={**other, "namespace": "n"}))
    assert "dataSourceRef" not in elsewhere["spec"]
    crossing = Judge(gates={"CrossNamespaceVolumeDataSource": True})
    elsewhere, errors = crossing.create("persistentvolumeclaims", claim(dataSourceRef={**other, "namespace": "n"}))
    assert (elsewhere["spec"]["dataSourceRef"]["namespace"], errors) == ("n", [])
    assert "dataSource" not in elsewhere["spec"]


def test_a_claim_asks_for_some_storage(judge: Judge) -> None:
    assert judge.create("persistentvolumeclaims", claim(resources={}))[1] == ["spec.resources[storage]: Required value"]
    assert judge.create("persistentvolumeclaims", claim(resources={"requests": {"storage": "0"}}))[1] == [
        'spec.resources[storage]: Invalid value: "0": must be greater than zero'
    ]


def test_of_a_claim_the_volume_may_be_said_once_and_of_a_bound_one_the_size(judge: Judge) -> None:
    made, _ = judge.create("persistentvolumeclaims", claim())
    assert change(judge, made, volumeName="v", storageClassName="s") == []
    bigger = {"requests": {"storage": "2Gi"}}
    assert change(judge, made, resources=bigger)[0].startswith(
        "spec: Forbidden: spec is immutable after creation except "
    )
    bound = deepcopy(made)
    bound["spec"]["volumeName"] = "v"
    bound["status"] = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    assert change(judge, bound, resources=bigger) == []
    assert change(judge, bound, volumeName="w") != []
    bound["spec"]["resources"] = bigger
    less = {"requests": {"storage": "1500Mi"}}
    assert change(judge, bound, resources=less) == []
    assert change(judge, bound, resources={"requests": {"storage": "1Gi"}}) == [
        "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"
    ]
    without = Judge((1, 33), {"RecoverVolumeExpansionFailure": False})
    assert change(without, bound, resources=less) == [
        "spec.resources.requests.storage: Forbidden: field can not be less than previous value"
    ]


def test_rows_of_volumes_and_claims_are_short(judge: Judge) -> None:
    given = volume(csi=CSI, claimRef={"namespace": "ns", "name": "c"}, storageClassName="fast")
    made, _ = judge.create("persistentvolumes", given)
    assert row_of(find("persistentvolumes"), made, NOW)["cells"][1:9] == [
        "1Gi", "RWO", "Retain", "Pending", "ns/c", "fast", "<unset>", "",
    ]  # fmt: skip
    wanted, _ = judge.create("persistentvolumeclaims", claim())
    assert row_of(find("persistentvolumeclaims"), wanted, NOW)["cells"][1:7] == ["Pending", "", "", "", "", "<unset>"]
    wanted["spec"]["volumeName"] = "v"
    modes = ["ReadWriteMany", "ReadWriteOnce"]
    wanted["status"] = {"phase": "Bound", "accessModes": modes, "capacity": {"storage": "2Gi"}}
    assert row_of(find("persistentvolumeclaims"), wanted, NOW)["cells"][1:5] == ["Bound", "v", "2Gi", "RWO,RWX"]


@pytest.mark.parametrize(("source", "wrong"), [
    ({"hostPath": {"path": "/a"}, "cephfs": {}}, ["cephFS: Forbidden: may not specify more than 1 volume type"]),
    ({"gitRepo": {"repository": "r", "directory": "/x/.."}},
     ['gitRepo.directory: Invalid value: "/x/..": must be a relative path', "gitRepo.directory: Invalid value: \"/x/..\": must not contain '..'"]),
    ({"iscsi": {"targetPortal": "p", "iqn": "zz", "lun": 0}},
     ['iscsi.iqn: Invalid value: "zz": must be valid format starting with iqn, eui, or naa']),
    ({"ephemeral": {"volumeClaimTemplate": {"metadata": {"name": "n"}, "spec": {**claim()["spec"], "accessModes": ["Any"]}}}},
     ["ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set",
      f'ephemeral.volumeClaimTemplate.spec.accessModes: Unsupported value: "Any": supported values: {MODES}']),
])  # fmt: skip
def test_volumes_of_pods_are_held_to_the_same_rules(judge: Judge, source: Json, wrong: list[str]) -> None:
    pod = {"spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v", **source}]}}
    assert judge.create("pods", pod)[1] == [f"spec.volumes[0].{text}" for text in wrong]


def test_an_error_shows_the_sources_of_a_volume_in_the_order_of_upstream_s_internal_type() -> None:
    of_a_volume = list(internal(PersistentVolumeSpec, {}))
    assert of_a_volume[6:11] == ["RBD", "Quobyte", "ISCSI", "FlexVolume", "Cinder"]
    assert of_a_volume[1:23] == list(internal(PersistentVolumeSource, {}))
