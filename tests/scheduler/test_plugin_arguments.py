"""Arguments of plugins, one by one. Defaults are upstream's."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from apiserver.api.objects import Json
from controllers.scheduler.config.arguments import CPU_AND_MEMORY, Arguments, read_arguments
from controllers.scheduler.config.configuration import ProfileSettings
from controllers.scheduler.config.fields import ConfigurationError

STORAGE = "StorageCapacityScoring"
LINE = [{"utilization": 0, "score": 1}, {"utilization": 100, "score": 10}]
FIT = "NodeResourcesFit"
RATIO = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": LINE}}
TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": TERM}]}
LIKE = {"matchExpressions": [{"key": "zone", "operator": "Like", "values": ["a"]}]}
SPREAD = {"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}


def gates(*off: str, on: tuple[str, ...] = ()) -> Callable[[str], bool]:
    """Build a lookup of gates: all are on but `off`, and the one that is off by default is on if named in `on`."""
    return lambda name: name in on or (name != STORAGE and name not in off)


def read(plugin: str, args: Json, enabled: Callable[[str], bool] | None = None) -> Arguments:
    return read_arguments(ProfileSettings(args={plugin: args}), enabled or gates())


@pytest.mark.parametrize(
    ("plugin", "args", "expected"),
    [
        ("DynamicResources", {}, {"filter_timeout": timedelta(seconds=10), "binding_timeout": timedelta(seconds=600)}),
        ("DynamicResources", {"filterTimeout": "3s"}, {"filter_timeout": timedelta(seconds=3)}),
        ("DynamicResources", {"filterTimeout": "0"}, {"filter_timeout": None}),
        ("DynamicResources", {"bindingTimeout": "1s"}, {"binding_timeout": timedelta(seconds=1)}),
        ("VolumeBinding", {}, {"volume_timeout": timedelta(seconds=600), "volume_shape": ()}),
        ("VolumeBinding", {"bindTimeoutSeconds": 0}, {"volume_timeout": timedelta()}),
        ("DefaultPreemption", {}, {"candidates_percentage": 10, "candidates_at_least": 100}),
        ("DefaultPreemption", {"minCandidateNodesPercentage": 0}, {"candidates_percentage": 0}),
        ("DefaultPreemption", {"minCandidateNodesPercentage": 100}, {"candidates_percentage": 100}),
        ("DefaultPreemption", {"minCandidateNodesAbsolute": 0}, {"candidates_at_least": 0}),
        ("InterPodAffinity", {}, {"hard_affinity_weight": 1, "ignores_preferred_terms_of_others": False}),
        ("InterPodAffinity", {"hardPodAffinityWeight": 0}, {"hard_affinity_weight": 0}),
        ("InterPodAffinity", {"hardPodAffinityWeight": 100}, {"hard_affinity_weight": 100}),
        ("InterPodAffinity", {"ignorePreferredTermsOfExistingPods": True}, {"ignores_preferred_terms_of_others": True}),
        ("PodTopologySpread", {}, {"spread": None}),
        ("PodTopologySpread", {"defaultingType": "System"}, {"spread": None}),
        ("PodTopologySpread", {"defaultingType": "List"}, {"spread": ()}),
        ("PodTopologySpread", {"defaultingType": "List", "defaultConstraints": [SPREAD]},
         {"spread": ({**SPREAD, "maxSkew": 1},)}),
        ("PodTopologySpread", {"defaultingType": "List", "defaultConstraints": [{"topologyKey": "zone", "maxSkew": 3}]},
         {"spread": ({"topologyKey": "zone", "maxSkew": 3, "whenUnsatisfiable": "DoNotSchedule"},)}),
        (FIT, {}, {"prefers_full_nodes": False, "shape": (), "scored": CPU_AND_MEMORY, "ignored": frozenset()}),
        (FIT, {"ignoredResources": ["a/b"], "ignoredResourceGroups": ["c"]}, {"ignored": frozenset({"a/b", "c"})}),
        (FIT, {"scoringStrategy": {"type": "MostAllocated"}}, {"prefers_full_nodes": True, "shape": ()}),
        (FIT, {"scoringStrategy": RATIO}, {"prefers_full_nodes": False, "shape": ((0, 10), (100, 100))}),
        (FIT, {"scoringStrategy": {**RATIO, "type": "LeastAllocated"}}, {"shape": ()}),
        (FIT, {"scoringStrategy": {"resources": [{"name": "a/b"}, {"name": "cpu", "weight": 100}]}},
         {"scored": (("a/b", 1), ("cpu", 100))}),
        ("NodeResourcesBalancedAllocation", {}, {"balanced": ("cpu", "memory")}),
        ("NodeResourcesBalancedAllocation", {"resources": [{"name": "a/b"}, {"name": "cpu", "weight": 1}]},
         {"balanced": ("a/b", "cpu")}),
        ("NodeAffinity", {}, {"added_affinity": None}),
        ("NodeAffinity", {"addedAffinity": REQUIRED}, {"added_affinity": REQUIRED}),
        ("NodeAffinity", {"addedAffinity": PREFERRED}, {"added_affinity": PREFERRED}),
        ("NodePorts", {}, {}),
    ],
)  # fmt: skip
def test_an_argument_changes_its_own_setting_and_nothing_else(plugin: str, args: Json, expected: Json) -> None:
    assert read(plugin, args) == replace(Arguments(), **expected)


@pytest.mark.parametrize(
    ("plugin", "args", "enabled", "text"),
    [
        ("NodePorts", {"mine": 1}, gates(), "NodePortsArgs: mine is not supported"),
        ("DynamicResources", {"filterTimeout": "1s"}, gates("DRASchedulerFilterTimeout"),
         "filterTimeout: the gate DRASchedulerFilterTimeout is off"),
        ("DynamicResources", {"bindingTimeout": "1s"}, gates("DRADeviceBindingConditions"),
         "bindingTimeout: the gate DRADeviceBindingConditions is off"),
        ("DynamicResources", {"bindingTimeout": "1s"}, gates("DRAResourceClaimDeviceStatus"),
         "bindingTimeout: the gate DRADeviceBindingConditions is off"),
        ("DynamicResources", {"bindingTimeout": "999ms"}, gates(), "bindingTimeout: must be at least 1s"),
        ("VolumeBinding", {"bindTimeoutSeconds": -1}, gates(), "bindTimeoutSeconds: must be an integer from 0"),
        ("VolumeBinding", {"shape": LINE}, gates(), "shape: the gate StorageCapacityScoring is off"),
        ("VolumeBinding", {"shape": []}, gates(on=(STORAGE,)), "shape: at least one point must be specified"),
        (FIT, {"scoringStrategy": {**RATIO, "requestedToCapacityRatio": {"shape": [LINE[0], LINE[0]]}}}, gates(),
         "shape[1].utilization: values must be sorted in increasing order"),
        (FIT, {"scoringStrategy": {**RATIO, "requestedToCapacityRatio": {"shape": LINE[::-1]}}}, gates(),
         "shape[1].utilization: values must be sorted in increasing order"),
        (FIT, {"scoringStrategy": {**RATIO, "requestedToCapacityRatio": {"shape": [{"utilization": 101}]}}}, gates(),
         "shape[0].utilization: must be an integer from 0 to 100"),
        (FIT, {"scoringStrategy": {**RATIO, "requestedToCapacityRatio": {"shape": [{"score": 11}]}}}, gates(),
         "shape[0].score: must be an integer from 0 to 10"),
        (FIT, {"scoringStrategy": {"type": "RequestedToCapacityRatio"}}, gates(), "at least one point must be"),
        ("NodeResourcesBalancedAllocation", {"resources": [{"name": "a"}, {"name": "a"}]}, gates(),
         "resources[1].name: must be a resource name, without duplicates"),
        ("NodeResourcesBalancedAllocation", {"resources": [{}]}, gates(), "resources[0].name: must be a resource name"),
        ("NodeAffinity", {"addedAffinity": {next(iter(REQUIRED)): {"nodeSelectorTerms": [{"matchFields": [{}]}]}}},
         gates(), "NodeAffinityArgs.addedAffinity: "),
        ("NodeAffinity", {"addedAffinity": {next(iter(PREFERRED)): [{"weight": 1, "preference": LIKE}]}}, gates(),
         "NodeAffinityArgs.addedAffinity: "),
    ],
)  # fmt: skip
def test_an_invalid_argument_is_rejected(plugin: str, args: Json, enabled: Callable[[str], bool], text: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(text)):
        read(plugin, args, enabled)


def test_gates_decide_defaults() -> None:
    assert read("NodePorts", {}, gates("DRASchedulerFilterTimeout")).filter_timeout is None
    assert read("NodePorts", {}, gates(on=(STORAGE,))).volume_shape == ((0, 100), (100, 0))
    assert read("VolumeBinding", {"shape": LINE}, gates(on=(STORAGE,))).volume_shape == ((0, 10), (100, 100))
