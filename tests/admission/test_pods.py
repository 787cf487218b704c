"""Plugins for pods: priorities, runtime classes, resizes, tolerations, labels."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.admission.plugins.default_toleration_seconds import DefaultTolerationSeconds
from apiserver.admission.plugins.pod_resize import NodeDeclaredFeatureValidator, PodResizeValidator
from apiserver.admission.plugins.pod_topology_labels import PodTopologyLabels
from apiserver.admission.plugins.priority import Priority
from apiserver.admission.plugins.runtime_class import RuntimeClass
from apiserver.api.objects import Json
from apiserver.registry.store.admission import Operation, Plugin
from tests.admission.asking import Situation, refusal


def admit(plugin: Plugin, situation: Situation, spec: Json, old: Json | None = None, **more: Any) -> tuple[Json, str]:
    """Run a plugin on a pod; return the pod's spec and the refusal."""
    before = None if old is None else {"metadata": {"name": "x"}, "spec": old}
    operation: Operation = "CREATE" if old is None else "UPDATE"
    attributes = situation.request(operation, "pods", {"metadata": {"name": "x"}, "spec": spec}, before, **more)
    words = refusal(plugin, attributes)
    assert attributes.obj is not None
    found: Json = attributes.obj["spec"]
    return found, words


# Priority


def priority_class(name: str, value: int, **more: Any) -> Json:
    return {"metadata": {"name": name}, "value": value, **more}


CLASSES = {"priorityclasses": [priority_class("high", 5), priority_class("meek", 7, preemptionPolicy="Never")]}
DEFAULTS = {"priorityclasses": [priority_class("b", 4, globalDefault=True), priority_class("a", 3, globalDefault=True)]}


PREEMPTS = {"preemptionPolicy": "PreemptLowerPriority"}
HIGH = {"priorityClassName": "high", "priority": 5, **PREEMPTS}
MEEK = {"priorityClassName": "meek", "priority": 7, "preemptionPolicy": "Never"}
PROVIDED = (
    "must not be provided in pod spec; priority admission controller computed {} from the given PriorityClass name"
)


@pytest.mark.parametrize(
    ("there", "spec", "made"),
    [
        ({}, {}, {"priority": 0, **PREEMPTS}),
        (CLASSES, {}, {"priority": 0, **PREEMPTS}),
        (CLASSES, {"priorityClassName": "meek"}, MEEK),
        (DEFAULTS, {}, {"priorityClassName": "a", "priority": 3, **PREEMPTS}),
        (CLASSES, HIGH, HIGH),
    ],
)
def test_a_pod_gets_the_number_and_the_policy_of_its_class(there: Any, spec: Json, made: Json) -> None:
    assert admit(Priority(), Situation(there), spec) == (made, "")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        ({"priorityClassName": "high", "priority": 6}, f"the integer value of priority (6) {PROVIDED.format(5)}"),
        (
            {"priorityClassName": "high", "preemptionPolicy": "Never"},
            f"the string value of PreemptionPolicy (Never) {PROVIDED.format('PreemptLowerPriority')}",
        ),
    ],
)
def test_a_pod_that_contradicts_its_class_is_refused(spec: Json, words: str) -> None:
    assert admit(Priority(), Situation(CLASSES), spec)[1] == words


def test_an_update_keeps_what_a_pod_was_given() -> None:
    old = {"priority": 5, "preemptionPolicy": "Never"}
    assert admit(Priority(), Situation(CLASSES), {}, old) == (old, "")
    assert admit(Priority(), Situation(CLASSES), {"priority": 6}, {"priority": 5}) == ({"priority": 6}, "")
    assert admit(Priority(), Situation(CLASSES), {}, {}) == ({}, "")
    assert admit(Priority(), Situation(CLASSES), {}, subresource="binding") == ({}, "")


def test_one_priority_class_is_the_default() -> None:
    situation = Situation({"priorityclasses": [priority_class("a", 3, globalDefault=True)]})
    words = "PriorityClass a is already marked as default. Only one default can exist"
    for operation, name, default, said in (
        ("CREATE", "b", True, words),
        ("CREATE", "b", False, ""),
        ("UPDATE", "b", True, words),
        ("UPDATE", "a", True, ""),
    ):
        new = priority_class(name, 9, globalDefault=default)
        request = situation.request(operation, "priorityclasses", new, new, group="scheduling.k8s.io", namespace="")  # type: ignore[arg-type]
        assert refusal(Priority(), request) == said
    first = priority_class("b", 9, globalDefault=True)
    request = Situation(CLASSES).request("CREATE", "priorityclasses", first, group="scheduling.k8s.io", namespace="")
    assert refusal(Priority(), request) == ""


def test_a_group_of_pods_gets_a_priority_where_preemption_knows_of_groups() -> None:
    gates = {"WorkloadAwarePreemption": True, "GenericWorkload": True, "GangScheduling": True}
    for on, spec, made, words in (
        (True, {"priorityClassName": "high"}, {"priorityClassName": "high", "priority": 5}, ""),
        (True, {}, {"priority": 0}, ""),
        (False, {"priorityClassName": "high"}, {"priorityClassName": "high"}, ""),
        (True, {"priorityClassName": "high", "priority": 5}, {"priorityClassName": "high", "priority": 5}, ""),
        (True, {"priority": 5}, None, "priority set in the pod group (5) must match the priority computed (0) based on the priority class set in the spec"),
    ):  # fmt: skip
        situation = Situation(CLASSES, gates=gates if on else {})
        request = situation.request(
            "CREATE", "podgroups", {"metadata": {"name": "x"}, "spec": spec}, group="scheduling.k8s.io"
        )
        assert refusal(Priority(), request) == words
        assert request.obj is not None
        assert made is None or request.obj["spec"] == made


# RuntimeClass


def runtime(**more: Any) -> Situation:
    return Situation({"runtimeclasses": [{"metadata": {"name": "r"}, "handler": "h", **more}]})


R: Json = {"runtimeClassName": "r"}


def test_a_pod_takes_the_overhead_of_its_runtime_class() -> None:
    heavy = runtime(overhead={"podFixed": {"cpu": "1"}})
    assert admit(RuntimeClass(), heavy, dict(R)) == (R | {"overhead": {"cpu": "1"}}, "")
    assert admit(RuntimeClass(), heavy, R | {"overhead": {"cpu": "1000m"}}) == (R | {"overhead": {"cpu": "1"}}, "")
    other = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
    assert admit(RuntimeClass(), heavy, R | {"overhead": {"cpu": "2"}})[1] == other
    alone = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    assert admit(RuntimeClass(), runtime(), R | {"overhead": {"cpu": "1"}})[1] == alone
    assert admit(RuntimeClass(), runtime(), {"overhead": {"cpu": "1"}})[1] == alone
    assert admit(RuntimeClass(), runtime(), {}) == ({}, "")
    assert admit(RuntimeClass(), runtime(overhead={}), dict(R)) == (R, "")
    assert admit(RuntimeClass(), runtime(overhead={}), R | {"overhead": {"cpu": "1"}})[1] == other


def test_a_runtime_class_is_there_and_has_a_name_that_a_path_can_have() -> None:
    for name, words in (
        ("none", 'pod rejected: RuntimeClass "none" not found'),
        ("", "500 resource name may not be empty"),
        ("a/b", "500 invalid resource name \"a/b\": [may not contain '/']"),
    ):
        assert admit(RuntimeClass(), runtime(), {"runtimeClassName": name})[1] == words
    assert admit(RuntimeClass(), runtime(), {"runtimeClassName": "none"}, subresource="binding")[1] == ""


def test_a_pod_goes_where_its_runtime_class_is() -> None:
    picky = runtime(scheduling={"nodeSelector": {"a": "b"}, "tolerations": [{"key": "t", "operator": "Exists"}]})
    tolerates = [{"key": "t", "operator": "Exists"}]
    assert admit(RuntimeClass(), picky, dict(R))[0] == R | {"nodeSelector": {"a": "b"}, "tolerations": tolerates}
    both = admit(RuntimeClass(), picky, R | {"nodeSelector": {"c": "d", "a": "b"}, "tolerations": [{"key": "u"}]})
    assert both == (R | {"nodeSelector": {"c": "d", "a": "b"}, "tolerations": [{"key": "u"}, *tolerates]}, "")
    assert admit(RuntimeClass(), picky, R | {"nodeSelector": {"a": "c"}})[1] == (
        "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c"
    )
    assert admit(RuntimeClass(), runtime(scheduling={"nodeSelector": {}}), dict(R)) == (R, "")


@pytest.mark.parametrize(
    ("own", "kept"),
    [
        ({"key": "t", "operator": "Exists"}, False),
        ({"key": "t", "operator": "Equal", "value": "v"}, False),
        ({"key": "t", "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": "u", "operator": "Exists"}, True),
    ],
)
def test_a_toleration_covered_by_the_class_is_not_repeated(own: Json, kept: bool) -> None:
    wide = {"key": "t", "operator": "Exists"}
    found, _ = admit(RuntimeClass(), runtime(scheduling={"tolerations": [wide]}), R | {"tolerations": [own]})
    assert found["tolerations"] == ([own, wide] if kept else [wide])


@pytest.mark.parametrize(
    ("wide", "narrow", "covered"),
    [
        ({"operator": "Exists"}, {"key": "t", "operator": "Exists"}, True),
        ({"operator": "Equal"}, {"key": "t", "operator": "Equal"}, False),
        ({"key": "t", "operator": "Exists", "effect": "NoExecute"}, {"key": "t", "operator": "Exists"}, False),
        ({"key": "t", "operator": "Exists", "effect": "NoExecute"}, {"key": "t", "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": "t", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}, {"key": "t", "operator": "Equal", "effect": "NoExecute", "tolerationSeconds": 5}, True),
        ({"key": "t", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}, {"key": "t", "operator": "Equal", "effect": "NoExecute", "tolerationSeconds": 6}, False),
        ({"key": "t", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}, {"key": "t", "operator": "Equal", "effect": "NoExecute"}, False),
        ({"key": "t", "operator": "Exists", "effect": "NoExecute"}, {"key": "t", "operator": "Equal", "effect": "NoExecute", "tolerationSeconds": 6}, True),
        ({"key": "t", "value": "v"}, {"key": "t", "operator": "Equal", "value": "v"}, True),
        ({"key": "t", "value": "v"}, {"key": "t", "operator": "Equal", "value": "w"}, False),
        ({"key": "t", "value": "v"}, {"key": "t", "operator": "Exists"}, False),
        ({"key": "t", "operator": "Lt", "value": "5"}, {"key": "t", "operator": "Equal", "value": "5"}, False),
    ],
)  # fmt: skip
def test_a_toleration_covers_another_that_allows_no_more(wide: Json, narrow: Json, covered: bool) -> None:
    for first, second in ((narrow, wide), (wide, narrow)):
        found, _ = admit(RuntimeClass(), runtime(scheduling={"tolerations": [second]}), R | {"tolerations": [first]})
        assert (narrow not in found["tolerations"]) is covered


# Changes of pods on nodes


def node(**more: Any) -> Situation:
    status = {"allocatable": {"cpu": "2", "memory": "1Gi"}, **more.pop("status", {})}
    gates = more.pop("gates", {})
    return Situation({"nodes": [{"metadata": {"name": "n1", **more}, "status": status}]}, gates=gates)


def resize_refusal(situation: Situation, cpu: str, *, generations: tuple[int, int] = (1, 2), **more: Any) -> str:
    spec = {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]} | more
    old, new = ({"metadata": {"name": "x", "generation": n}, "spec": spec} for n in generations)
    return refusal(PodResizeValidator(), situation.request("UPDATE", "pods", new, old, subresource="resize"))


def test_a_resize_fits_a_node_that_runs_linux() -> None:
    lacking = "node didn't have enough allocatable resources: cpu, requested: 2001, allocatable: 2000"
    assert resize_refusal(node(), "2") == ""
    assert resize_refusal(node(), "2001m") == lacking
    assert resize_refusal(node(), "2001m", generations=(1, 1)) == ""
    assert resize_refusal(node(), "2001m", nodeName="") == ""
    assert resize_refusal(node(), "1", nodeName="n2") == 'node "n2" not found'
    assert resize_refusal(node(labels={"kubernetes.io/os": "linux"}), "2") == ""
    assert resize_refusal(node(labels={"kubernetes.io/os": "windows"}), "1") == (
        'pod resize is only supported on linux nodes, node "n1" is "windows"'
    )
    assert resize_refusal(node(status={"allocatable": {}}), "1") == (
        "node didn't have enough allocatable resources: cpu, requested: 1000, allocatable: 0"
    )


def test_a_refused_resize_has_its_reason_as_a_cause() -> None:
    for situation, reason in (
        (node(), "NodeCapacity"),
        (node(labels={"kubernetes.io/os": "windows"}), "UnsupportedPlatform"),
    ):
        spec = {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "9"}}}]}
        old, new = ({"metadata": {"name": "x", "generation": n}, "spec": spec} for n in (1, 2))
        request = situation.request("UPDATE", "pods", new, old, subresource="resize")
        with pytest.raises(Exception, match="forbidden") as refused:
            PodResizeValidator().validate(request)
        assert refused.value.details["causes"] == [{"reason": reason}]  # type: ignore[attr-defined]


def update_refusal(new: Json, old: Json, *declared: str) -> str:
    situation = node(status={"declaredFeatures": list(declared)}, gates={"NodeDeclaredFeatures": True})
    before, after = (
        {"metadata": {"name": "x", "generation": n}, "spec": {"nodeName": "n1", **spec}}
        for n, spec in ((1, old), (2, new))
    )
    return refusal(NodeDeclaredFeatureValidator(), situation.request("UPDATE", "pods", after, before))


def test_a_change_needs_a_node_that_declares_it() -> None:
    pod_level, init = "InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers"

    def of_pod(cpu: str) -> Json:
        return {"resources": {"requests": {"cpu": cpu}}}

    def of_init(cpu: str, policy: str | None = None) -> Json:
        more = {"restartPolicy": policy} if policy else {}
        return {"initContainers": [{"name": "i", **more, **of_pod(cpu)}]}

    words = 'pod update requires features {} which are not available on node "n1"'
    assert update_refusal(of_pod("1"), of_pod("1000m")) == ""
    assert update_refusal(of_pod("2"), of_pod("1")) == words.format(pod_level)
    assert update_refusal(of_pod("2"), of_pod("1"), pod_level) == ""
    assert update_refusal({"resources": {"limits": {"cpu": "1"}}}, {}) == words.format(pod_level)
    assert update_refusal({"resources": {"claims": [{"name": "a"}]}}, {"resources": {}}) == words.format(pod_level)
    assert update_refusal(of_init("2"), of_init("1")) == words.format(init)
    assert update_refusal(of_init("2"), of_init("1"), init) == ""
    assert update_refusal(of_init("2", "Always"), of_init("1", "Always")) == ""
    assert update_refusal(of_init("1"), of_init("1")) == ""
    both = {**of_init("2"), **of_pod("2")}, {**of_init("1"), **of_pod("1")}
    assert update_refusal(*both) == words.format(f"{pod_level}, {init}")
    assert update_refusal(*both, init) == words.format(pod_level)


# Tolerations, labels of the node


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([], ["not-ready", "unreachable"]),
        ([{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}], ["unreachable"]),
        ([{"key": "node.kubernetes.io/not-ready"}], ["unreachable"]),
        ([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}], ["not-ready", "unreachable"]),
        ([{"operator": "Exists"}], []),
        ([{"operator": "Exists", "effect": "NoSchedule"}], ["not-ready", "unreachable"]),
    ],
)
def test_a_pod_stays_five_minutes_on_a_lost_node_unless_it_says_what_it_tolerates(
    given: list[Json], added: list[str]
) -> None:
    found, _ = admit(DefaultTolerationSeconds(), Situation(), {"tolerations": given})
    assert found["tolerations"] == given + [
        {"key": f"node.kubernetes.io/{each}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for each in added
    ]
    untouched, _ = admit(DefaultTolerationSeconds(), Situation(), {}, subresource="status")
    assert untouched == {}


ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


@pytest.mark.parametrize(
    ("obj", "subresource", "labels"),
    [
        ({"spec": {"nodeName": "n1"}}, "", {ZONE: "z", REGION: "r"}),
        ({"spec": {"nodeName": "n1"}, "metadata": {"labels": {"a": "b", ZONE: "x"}}}, "", {"a": "b", ZONE: "z", REGION: "r"}),
        ({"spec": {"nodeName": "n2"}}, "", None),
        ({"spec": {}}, "", None),
        ({"target": {"kind": "Node", "name": "n1"}}, "binding", {ZONE: "z", REGION: "r"}),
        ({"target": {"kind": "Pod", "name": "n1"}}, "binding", None),
        ({"spec": {"nodeName": "n1"}}, "eviction", None),
    ],
)  # fmt: skip
def test_a_pod_knows_the_zone_of_its_node(obj: Json, subresource: str, labels: Json | None) -> None:
    for on in (True, False):
        situation = node(labels={ZONE: "z", REGION: "r", "other": "x"}, gates={"PodTopologyLabelsAdmission": on})
        request = situation.request("CREATE", "pods", obj, subresource=subresource)
        assert refusal(PodTopologyLabels(), request) == ""
        assert request.obj is not None
        before = obj.get("metadata", {}).get("labels")
        assert request.obj.get("metadata", {}).get("labels") == (labels if on else before)
