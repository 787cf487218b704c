"""Warning events about annotations that have no effect."""

from __future__ import annotations

import pytest

from apiserver.api.objects import Json
from controllers.kubelet.emulation.annotation_check import annotation_problems
from kubedra.pytest_plugin import Kube
from tests.support.patience import wait_until


def obj(name: str, value: str) -> Json:
    spec = {"containers": [{"name": "main"}], "initContainers": [{"name": "setup"}]}
    return {
        "metadata": {"name": "x", "annotations": {f"kubedra.dev/{name}": value, "example.com/a": "b"}},
        "spec": spec,
    }


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("Pod", "exit-after", "2"),
        ("Pod", "exit-after.setup", "0.5s"),
        ("Pod", "exit-after", "5m"),
        ("Pod", "exit-after", "never"),
        ("Node", "jobs-exit-after", "never"),
        ("Node", "usage.cpu", "2"),
        ("Pod", "exit-code", "255"),
        ("Pod", "readiness-fails.main", "0s-5s, 20s"),
        ("Pod", "log", "anything"),
        ("Pod", "usage.cpu", "500m"),
        ("Pod", "usage.memory.main", "1Gi"),
        ("Pod", "metric.queue-length", "3"),
        ("Node", "devices", "8"),
        ("Node", "devices", "gpu.example.com=0"),
        ("Node", "emulated", ""),
        ("Node", "profile", "mig"),
        ("Node", "tainted-devices", "gpu-0=gone:NoExecute, gpu-1=a=b:NoSchedule"),
        ("Node", "unhealthy-devices", "gpu-0=too hot"),
        ("Node", "prepare-takes", "5s"),
    ],
)
def test_an_annotation_with_an_effect_is_no_problem(kind: str, name: str, value: str) -> None:
    assert annotation_problems(obj(name, value), kind) == []


@pytest.mark.parametrize(
    ("kind", "name", "value", "reason", "words"),
    [
        ("Pod", "exit-aftr", "2", "UnknownAnnotation", "did you mean kubedra.dev/exit-after?"),
        ("Pod", "no-such-thing", "2", "UnknownAnnotation", "kubedra.dev/no-such-thing is unknown and has no effect"),
        ("Pod", "exit-after.other", "2", "UnknownAnnotation", "the pod has no container other"),
        ("Pod", "devices", "8", "UnknownAnnotation", "has no effect on a Pod; set it on a Node"),
        ("Node", "exit-after", "8", "UnknownAnnotation", "has no effect on a Node; set it on a Pod"),
        (
            "Pod",
            "exit-after",
            "soon",
            "InvalidAnnotation",
            "'soon' is invalid; expected a duration, such as 2s, 0.5s or 5m, or never",
        ),
        ("Node", "jobs-exit-after", "soon", "InvalidAnnotation", "expected a duration"),
        ("Pod", "jobs-exit-after", "1s", "UnknownAnnotation", "has no effect on a Pod; set it on a Node"),
        ("Pod", "exit-after", "-1", "InvalidAnnotation", "expected a duration"),
        ("Pod", "ready-after.main", "inf", "InvalidAnnotation", "expected a duration"),
        ("Pod", "exit-code.main", "256", "InvalidAnnotation", "expected a number from 0 to 255"),
        ("Pod", "startup-fails", "0s-x", "InvalidAnnotation", "expected periods"),
        ("Pod", "usage.cpu", "much", "InvalidAnnotation", "expected a quantity"),
        ("Node", "devices", "many", "InvalidAnnotation", "expected a number or DRIVER=NUMBER"),
        ("Node", "profile", "9xh100", "InvalidAnnotation", "no profile '9xh100'"),
        ("Node", "tainted-devices", "gpu-0=gone", "InvalidAnnotation", "expected DEVICE=KEY:EFFECT"),
        ("Node", "prepare-takes", "long", "InvalidAnnotation", "expected a duration"),
    ],
)
def test_an_annotation_without_effect_is_named_with_the_reason(
    kind: str, name: str, value: str, reason: str, words: str
) -> None:
    [(found, message)] = annotation_problems(obj(name, value), kind)
    assert found == reason
    assert f"kubedra.dev/{name}" in message
    assert words in message


@pytest.mark.integration
def test_each_problem_becomes_one_event_of_its_object(kube: Kube) -> None:
    kube.add_node("n", devices=1)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "typo", "annotations": {"kubedra.dev/exit-aftr": "1"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    kube.apply(pod)
    kube.wait("pod/typo", "phase=Running")
    kube.patch("node/n", {"metadata": {"annotations": {"kubedra.dev/devices": "x"}}})
    wait_until(lambda: len(warnings(kube)) >= 2, "both events")
    assert [(each["involvedObject"]["name"], each["reason"], each["count"]) for each in warnings(kube)] == [
        ("n", "InvalidAnnotation", 1),
        ("typo", "UnknownAnnotation", 1),
    ]


def warnings(kube: Kube) -> list[Json]:
    events = kube.list("events", namespace="")
    found = [each for each in events if each["reason"].endswith("Annotation")]
    return sorted(found, key=lambda each: str(each["involvedObject"]["name"]))
