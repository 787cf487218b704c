"""LimitRanger: defaults of containers, minimum, maximum and ratio."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.admission.plugins.limit_ranger import LimitRanger
from apiserver.api.objects import Json
from tests.admission.asking import Situation, refusal

PLUGIN = LimitRanger()


def there(*limits: Json, namespace: str = "n", name: str = "r") -> Json:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"limits": list(limits)}}


def pod(*containers: Json, init: tuple[Json, ...] = (), **spec: Any) -> Json:
    more = {"initContainers": [{"name": f"i{n}", **each} for n, each in enumerate(init)]} if init else {}
    return {
        "metadata": {"name": "x"},
        "spec": {"containers": [{"name": f"c{n}", **each} for n, each in enumerate(containers)], **more, **spec},
    }


def asks(requests: Json | None = None, limits: Json | None = None) -> Json:
    return {"resources": {"requests": requests or {}, "limits": limits or {}}}


def test_containers_without_resources_get_the_defaults_and_an_annotation_lists_them() -> None:
    limit: Json = {
        "type": "Container", "default": {"cpu": "2", "memory": "1Gi"}, "defaultRequest": {"cpu": "1"},
    }  # fmt: skip
    ranges = [there({"type": "Pod", "default": {"cpu": "9"}}, limit), there(limit, namespace="other")]
    request = Situation({"limitranges": ranges}).request(
        "CREATE",
        "pods",
        pod({}, asks({"cpu": "500m"}, {"cpu": "1", "memory": "1"}), asks({}, {"cpu": "1"}), init=({},)),
    )
    PLUGIN.admit(request)
    assert request.obj is not None
    resources = [each["resources"] for each in request.obj["spec"]["containers"]]
    assert resources == [
        {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}},
        {"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "1"}},
        {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1"}},
    ]
    assert request.obj["spec"]["initContainers"][0]["resources"] == resources[0]
    assert request.obj["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu request for container c0; cpu, memory limit for"
        " container c0; cpu request for container c2; memory limit for container c2; cpu request for init container i0;"
        " cpu, memory limit for init container i0"
    }


def test_a_later_limit_of_a_range_wins_and_what_needs_nothing_is_not_annotated() -> None:
    ranges = [
        there({"type": "Container", "default": {"cpu": "1"}}, {"type": "Container", "default": {"cpu": "2"}}, {"type": "Container"})
    ]  # fmt: skip
    request = Situation({"limitranges": ranges}).request("CREATE", "pods", pod({}))
    PLUGIN.admit(request)
    assert request.obj is not None
    assert request.obj["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "2"}}
    full = pod(asks({}, {"cpu": "1"}))
    request = Situation({"limitranges": ranges}).request("CREATE", "pods", full)
    PLUGIN.admit(request)
    assert request.obj == full


@pytest.mark.parametrize(
    ("limit", "container", "words"),
    [
        ({"min": {"cpu": "1"}}, asks({"cpu": "1"}), ""),
        ({"min": {"cpu": "1"}}, asks({"cpu": "999m"}), "minimum cpu usage per Container is 1, but request is 999m"),
        ({"min": {"cpu": "1"}}, asks({"cpu": "1"}, {"cpu": "1"}), ""),
        ({"min": {"cpu": "1"}}, asks({"cpu": "1"}, {"cpu": "999m"}), "minimum cpu usage per Container is 1, but limit is 999m"),
        ({"min": {"cpu": "1"}}, asks(), "minimum cpu usage per Container is 1.  No request is specified"),
        ({"max": {"cpu": "1"}}, asks({}, {"cpu": "1"}), ""),
        ({"max": {"cpu": "1"}}, asks({"cpu": "1"}, {"cpu": "1"}), ""),
        ({"max": {"cpu": "1"}}, asks({}, {"cpu": "1001m"}), "maximum cpu usage per Container is 1, but limit is 1001m"),
        ({"max": {"cpu": "1"}}, asks({"cpu": "1001m"}, {"cpu": "1"}), "maximum cpu usage per Container is 1, but request is 1001m"),
        ({"max": {"cpu": "1"}}, asks({"cpu": "1"}), "maximum cpu usage per Container is 1.  No limit is specified"),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, asks({"cpu": "1"}, {"cpu": "2"}), ""),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, asks({"cpu": "1"}, {"cpu": "2001m"}), "cpu max limit to request ratio per Container is 2, but provided ratio is 2.001000"),
        ({"maxLimitRequestRatio": {"cpu": "1500m"}}, asks({"cpu": "2"}, {"cpu": "3"}), ""),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, asks({}, {"cpu": "2"}), "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, asks({"cpu": "0"}, {"cpu": "2"}), "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, asks({"cpu": "1"}), "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0"),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, asks({"cpu": "1"}, {"cpu": "0"}), "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0"),
        ({"min": {"cpu": "1", "a": "1"}}, asks({}), "[minimum a usage per Container is 1.  No request is specified, minimum cpu usage per Container is 1.  No request is specified]"),
        ({"min": {"memory": "10000000000000001"}}, asks({"memory": "10000000000000000"}), "minimum memory usage per Container is 10000000000000001, but request is 10P"),
        ({"min": {"memory": "10000000000000000"}}, asks({"memory": "10000000000000000"}), ""),
    ],
)  # fmt: skip
def test_a_container_keeps_to_the_limits_and_equal_is_enough(limit: Json, container: Json, words: str) -> None:
    situation = Situation({"limitranges": [there({"type": "Container", **limit})]})
    assert refusal(PLUGIN, situation.request("CREATE", "pods", pod(container))) == words
    plain = pod(asks({"cpu": "1", "memory": "20000000000000000", "a": "1"}, {"cpu": "1"}), init=(container,))
    assert refusal(PLUGIN, situation.request("CREATE", "pods", plain)) == words


def test_each_problem_of_many_containers_is_listed_once() -> None:
    situation = Situation({"limitranges": [there({"type": "Container", "min": {"cpu": "1"}})]})
    small = asks({"cpu": "1m"})
    assert refusal(PLUGIN, situation.request("CREATE", "pods", pod(small, small))) == (
        "minimum cpu usage per Container is 1, but request is 1m"
    )


def test_a_pod_is_judged_by_what_all_of_it_asks_for() -> None:
    situation = Situation({"limitranges": [there({"type": "Pod", "max": {"cpu": "2"}})]})
    one = asks({"cpu": "1"}, {"cpu": "1"})
    assert refusal(PLUGIN, situation.request("CREATE", "pods", pod(one, one))) == ""
    assert refusal(PLUGIN, situation.request("CREATE", "pods", pod(one, one, one))) == (
        "maximum cpu usage per Pod is 2, but limit is 3"
    )
    whole = pod(one, resources={"limits": {"cpu": "3"}, "requests": {"cpu": "1"}})
    assert "limit is 3" in refusal(PLUGIN, situation.request("CREATE", "pods", whole))
    off = Situation(
        situation.there, gates={"PodLevelResources": False, "InPlacePodLevelResourcesVerticalScaling": False}
    )
    assert refusal(PLUGIN, off.request("CREATE", "pods", whole)) == ""


OF_CLAIMS = "storage usage per PersistentVolumeClaim is"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"storage": "1Gi"}, ""),
        ({"storage": "2Gi"}, ""),
        ({"storage": "1Mi"}, "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"),
        ({"storage": "3Gi"}, "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"),
        ({}, f"[minimum {OF_CLAIMS} 1Gi.  No request is specified, maximum {OF_CLAIMS} 2Gi.  No request is specified]"),
    ],
)
def test_a_claim_keeps_to_the_limits_of_claims_whenever_it_is_written(asked: Json, words: str) -> None:
    limit = {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}
    situation = Situation({"limitranges": [there({"type": "Container", "min": {"cpu": "1"}}, limit)]})
    claim = {"metadata": {"name": "x"}, "spec": {"resources": {"requests": asked}}}
    for operation, old in (("CREATE", None), ("UPDATE", {"metadata": {}})):
        assert refusal(PLUGIN, situation.request(operation, "persistentvolumeclaims", claim, old)) == words  # type: ignore[arg-type]


def test_only_new_and_resized_pods_are_checked() -> None:
    situation = Situation({"limitranges": [there({"type": "Container", "min": {"cpu": "1"}})]})
    small = pod(asks({"cpu": "1m"}))
    old: Json = {"metadata": {}}
    going = {"metadata": {"deletionTimestamp": "t"}}

    def judged(operation: Any, subresource: str, old: Json | None) -> bool:
        return refusal(PLUGIN, situation.request(operation, "pods", small, old, subresource=subresource)) != ""

    assert judged("CREATE", "", None)
    assert judged("UPDATE", "resize", old)
    assert not judged("UPDATE", "resize", going)
    assert not judged("UPDATE", "", old)
    assert not judged("UPDATE", "status", old)
    assert not judged("CREATE", "eviction", None)
    elsewhere = Situation({"limitranges": [there({"type": "Container", "min": {"cpu": "1"}}, namespace="m")]})
    assert refusal(PLUGIN, elsewhere.request("CREATE", "pods", small)) == ""
    assert not PLUGIN.handles(situation.request("CREATE", "pods", {}, group="apps").resource)
    assert PLUGIN.handles(situation.request("CREATE", "persistentvolumeclaims", {}).resource)
