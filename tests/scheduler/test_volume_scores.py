"""Scores of nodes by their capacity for the volumes of a pod (gate StorageCapacityScoring)."""

from __future__ import annotations

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import STORAGE_CAPACITIES, key_of
from controllers.scheduler.config.arguments import read_arguments
from controllers.scheduler.config.configuration import ProfileSettings
from controllers.scheduler.config.fields import ConfigurationError
from controllers.scheduler.framework.scores import on_line
from tests.controllers.test_explain import meta, of_pod, world
from tests.controllers.test_explain_reasons import mounting, node, storage_class, volume, volume_claim

GATE = {"StorageCapacityScoring": True}


@pytest.mark.parametrize(
    ("used", "score"), [(0, 10), (20, 10), (21, 12), (40, 50), (60, 90), (75, 65), (78, 60), (90, 40), (100, 40)]
)
def test_a_score_is_interpolated_and_rounded_towards_zero(used: int, score: int) -> None:
    assert on_line(((20, 10), (60, 90), (90, 40)), used) == score


def capacity(on: str, room: str) -> Json:
    topology = {"matchLabels": {"kubernetes.io/hostname": on}}
    return {"metadata": meta(on, "ns"), "storageClassName": "local", "nodeTopology": topology, "capacity": room}


def best(gates: dict[str, bool], small: str, large: str, **objects: list[Json]) -> str:
    """Return the node of a pod with a waiting claim for 10Gi."""
    given: dict[str, list[Json]] = {"volume_claims": [volume_claim()], "pods": [mounting()], **objects}
    made = world(
        gates,
        nodes=[node(small, "a"), node(large, "b")],
        storage_classes=[storage_class(provisioner="csi")],
        csi_drivers=[{"metadata": meta("csi"), "spec": {"storageCapacity": True}}],
        **given,
    )
    for on, room in ((small, "11Gi"), (large, "100Gi")):
        made.set(STORAGE_CAPACITIES, key_of(capacity(on, room)), capacity(on, room))
    text: str = of_pod(made)["text"]
    return text.removeprefix("best on ")


@pytest.mark.parametrize(("small", "large"), [("n1", "n2"), ("n2", "n1")])
def test_with_the_gate_a_node_with_more_capacity_is_better(small: str, large: str) -> None:
    assert best(GATE, small, large) == large
    assert best({}, small, large) == small


@pytest.mark.parametrize(("small", "large"), [("n1", "n2"), ("n2", "n1")])
def test_a_node_with_a_larger_existing_volume_is_better(small: str, large: str) -> None:
    volumes = [volume("s", "10Gi", zone="a"), volume("l", "90Gi", zone="b")]
    assert best(GATE, small, large, volumes=volumes) == large


def test_volumes_to_be_provisioned_do_not_count_beside_existing_ones() -> None:
    both = mounting()
    both["spec"]["volumes"].append({"name": "w", "persistentVolumeClaim": {"claimName": "other"}})
    volumes = [volume("s", "25Gi", zone="a"), volume("l", "20Gi", zone="b")]
    claims = [volume_claim(), volume_claim("other")]
    # The larger volume is on the node with less capacity.
    assert best(GATE, "n1", "n2", volumes=volumes, volume_claims=claims, pods=[both]) == "n1"


def test_the_shape_is_an_argument_where_the_gate_is_on() -> None:
    args = {"VolumeBinding": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}}
    settings = ProfileSettings(args=args)
    found = read_arguments(settings, lambda name: name in GATE)
    usual = read_arguments(ProfileSettings(), lambda _: True)
    assert (on_line(found.volume_shape, 20), on_line(usual.volume_shape, 20)) == (20, 80)
    with pytest.raises(ConfigurationError, match=r"VolumeBindingArgs\.shape: the gate StorageCapacityScoring is off"):
        read_arguments(settings, lambda _: False)
