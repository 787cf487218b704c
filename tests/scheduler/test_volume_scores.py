"""Scores of nodes by their capacity for the volumes of a pod (gate StorageCapacityScoring)."""

from __future__ import annotations

import pytest

from apiserver.api.objects import Json
from controllers.scheduler.config.arguments import read_arguments
from controllers.scheduler.config.configuration import ProfileSettings
from controllers.scheduler.config.fields import ConfigurationError
from controllers.scheduler.framework.scores import on_line
from tests.controllers.test_explain import of_pod, world
from tests.controllers.test_explain_reasons import CSI_DRIVER, mounting, node, storage_class, volume, volume_claim
from tests.support.objects import make_metadata

GATE = {"StorageCapacityScoring": True}


@pytest.mark.parametrize(
    ("used", "score"), [(0, 10), (20, 10), (21, 12), (40, 50), (60, 90), (75, 65), (78, 60), (90, 40), (100, 40)]
)
def test_a_score_is_interpolated_and_rounded_towards_zero(used: int, score: int) -> None:
    assert on_line(((20, 10), (60, 90), (90, 40)), used) == score


def capacity(on: str, room: str) -> Json:
    topology = {"matchLabels": {"kubernetes.io/hostname": on}}
    made = {"kind": "CSIStorageCapacity", "metadata": make_metadata(on, "ns"), "storageClassName": "local"}
    return {**made, "nodeTopology": topology, "capacity": room}


def best(gates: dict[str, bool], small: str, large: str, *objects: Json) -> str:
    """Return the node of a pod whose claim on 10Gi waits."""
    nodes = node(small, "a"), capacity(small, "11Gi"), node(large, "b"), capacity(large, "100Gi")
    given = storage_class(provisioner="csi"), CSI_DRIVER, volume_claim(), mounting()
    text: str = of_pod(world(*nodes, *given, *objects, gates=gates))["text"]
    return text.removeprefix("best on ")


@pytest.mark.parametrize(("small", "large"), [("n1", "n2"), ("n2", "n1")])
def test_with_the_gate_a_node_with_more_capacity_is_better(small: str, large: str) -> None:
    assert best(GATE, small, large) == large
    assert best({}, small, large) == small


@pytest.mark.parametrize(("small", "large"), [("n1", "n2"), ("n2", "n1")])
def test_a_node_with_a_larger_existing_volume_is_better(small: str, large: str) -> None:
    volumes = [volume("s", "10Gi", zone="a"), volume("l", "90Gi", zone="b")]
    assert best(GATE, small, large, *volumes) == large


def test_volumes_to_be_provisioned_do_not_count_beside_existing_ones() -> None:
    both = mounting()
    both["spec"]["volumes"].append({"name": "w", "persistentVolumeClaim": {"claimName": "other"}})
    volumes = [volume("s", "25Gi", zone="a"), volume("l", "20Gi", zone="b")]
    claims = [volume_claim(), volume_claim("other")]
    # The larger volume is where less room is.
    assert best(GATE, "n1", "n2", *volumes, *claims, both) == "n1"


def test_the_shape_is_an_argument_where_the_gate_is_on() -> None:
    args = {"VolumeBinding": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}}
    settings = ProfileSettings(args=args)
    found = read_arguments(settings, lambda name: name in GATE)
    usual = read_arguments(ProfileSettings(), lambda _: True)
    assert (on_line(found.volume_shape, 20), on_line(usual.volume_shape, 20)) == (20, 80)
    with pytest.raises(ConfigurationError, match=r"VolumeBindingArgs\.shape: the gate StorageCapacityScoring is off"):
        read_arguments(settings, lambda _: False)
