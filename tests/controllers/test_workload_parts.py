"""The parts that controllers of pods made from templates share: hashes, expectations, which pods go first."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.workloads.common import templates
from controllers.workloads.common.expectations import Expectations
from controllers.workloads.common.object_cache import ObjectCache
from controllers.workloads.common.pod_control import slow_start
from controllers.workloads.common.pod_states import next_availability, to_delete_first
from controllers.workloads.common.templates import go_json, pod_prefix, revision_name, template_hash

pytestmark = pytest.mark.integration

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)

SMALL: Json = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
#: Every way in which a value is printed: named types, pointers to zero, embedded structs, wide and zero quantities.
LARGE: Json = {
    "metadata": {"labels": {"b": "2", "a": "1"}, "annotations": {"k": "é<>&\n"}},
    "spec": {
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "serviceAccount": "sa", "serviceAccountName": "sa", "schedulerName": "default-scheduler", "hostNetwork": True,
        "securityContext": {"fsGroup": 0, "seLinuxOptions": {"level": "s0"}}, "priority": 0,
        "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 0}, {}], "overhead": {"cpu": "1500m"},
        "volumes": [
            {"name": "e", "emptyDir": {"sizeLimit": "5Gi"}},
            {"name": "r", "rbd": {"monitors": ["m"], "image": "x", "fsType": "ext4"}},
            {"name": "p", "projected": {"sources": [{"configMap": {"name": "cm"}}]}},
        ],
        "containers": [
            {
                "name": "c", "image": "i", "command": ["sh", "-c", 'a "b"'], "tty": True,
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "env": [
                    {"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "x"}}},
                    {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                ],
                "resources": {
                    "limits": {"cpu": "100m", "memory": "1Gi", "example.com/n": "12345678901234567890123"},
                    "requests": {"cpu": "0", "memory": "1e3"}, "claims": [{"name": "gpu"}],
                },
                "livenessProbe": {"httpGet": {"port": "http", "scheme": "HTTP"}, "periodSeconds": 10},
                "readinessProbe": {"tcpSocket": {"port": 80}},
            }
        ],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
    },
}  # fmt: skip

#: Decoded times have a zone: the values are those of a process without a local zone.
DATED: Json = {"metadata": {"creationTimestamp": "2024-01-02T03:04:05Z", "deletionTimestamp": "2024-01-02T03:04:05Z"}}


@pytest.mark.parametrize(
    ("template", "collisions", "hash"),
    [
        (SMALL, None, "568b685c5b"),
        (LARGE, None, "6d7f455f74"),
        (SMALL, 1, "6c47788fd5"),
        (DATED, None, "6b7f456c8f"),
    ],
)
def test_the_hash_of_a_template_is_kube_controller_managers(template: Json, collisions: int | None, hash: str) -> None:
    """The values are those that upstream's own function gives (1.36)."""
    assert template_hash(template, collisions) == hash


def test_names_stay_names() -> None:
    assert pod_prefix("web") == "web-"
    assert pod_prefix("x" * 300) == "x" * 300
    assert revision_name("x" * 230, "abc") == "x" * 223 + "-abc"
    assert go_json({"b": "<&>", "a": {"d": 9223372036854775807, "c": [True, None, 1]}}) == (
        '{"a":{"c":[true,null,1],"d":9223372036854776000},"b":"\\u003c\\u0026\\u003e"}'
    )


async def test_what_was_asked_for_is_waited_for_five_minutes() -> None:
    expectations = Expectations()
    expectations.expect("a", creations=2)
    expectations.observe_creation("a")
    assert not expectations.is_satisfied("a")
    expectations.observe_creation("a")
    assert expectations.is_satisfied("a")
    expectations.expect("a", deletions=["u", "v"])
    expectations.observe_deletion("a", "u")
    expectations.observe_deletion("a", "u")  # Seen twice: marked, then gone.
    assert not expectations.is_satisfied("a")
    await asyncio.sleep(301)
    assert expectations.is_satisfied("a")


def test_creation_starts_slowly_and_stops_at_the_first_batch_that_fails() -> None:
    asked: list[int] = []

    async def work(number: int) -> None:
        asked.append(number)
        if number >= 5:
            raise ValueError(number)

    done, failure = asyncio.run(slow_start(100, work))
    assert (asked, done, str(failure)) == ([0, 1, 2, 3, 4, 5, 6], 5, "5")


def pod(name: str, node: str = "n", ready: int | None = 3600, created: int = 7200, **status: Any) -> Json:
    """`ready` and `created`: seconds ago."""

    def ago(seconds: int) -> str:
        return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")

    status = {"phase": "Running", **status}
    if ready is not None:
        status["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": ago(ready)}]
    metadata = {"name": name, "uid": name, "creationTimestamp": ago(created)}
    return {"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": status}


def test_pods_that_are_missed_least_go_first() -> None:
    restarted: Json = {"containerStatuses": [{"name": "c", "restartCount": 3}]}
    expected = [
        pod("unbound", "", None, phase="Pending"),
        pod("pending", "n", None, phase="Pending"),
        pod("unready", "n", None),
        pod("with-others", "full"),
        pod("young", ready=60),
        pod("restarted", **restarted),
        pod("new", created=3650),
        pod("old", created=720000),
    ]
    cheap = pod("cheap")
    cheap["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": "-1"}
    expected.insert(3, cheap)
    related = [pod(f"other-{number}", "full") for number in range(9)]
    found = to_delete_first(expected[::-1], [*expected, *related], NOW)
    assert [each["metadata"]["name"] for each in found] == [each["metadata"]["name"] for each in expected]
    young = pod("young", ready=60)
    for by_cost, first in ((True, cheap), (False, young)):
        assert to_delete_first([cheap, young], [], NOW, by_cost=by_cost)[0] is first


def test_the_next_pass_is_when_the_next_pod_becomes_available() -> None:
    pods = [pod("a", ready=50), pod("b", ready=20), pod("c", ready=90), pod("d", ready=None)]
    assert next_availability(pods, 60, NOW) == timedelta(seconds=10)
    assert next_availability(pods, 0, NOW) is None


def test_an_object_is_computed_once_as_long_as_it_is_the_same() -> None:
    asked: list[str] = []

    def compute(obj: Json) -> int:
        asked.append(obj["name"])
        return len(asked)

    remembered = ObjectCache(compute)
    first, second = {"name": "a"}, {"name": "b"}
    assert remembered.of([first, second]) == [(first, 1), (second, 2)]
    assert remembered.of([second, first]) == [(second, 2), (first, 1)]
    assert remembered.of([dict(first), second]) == [(first, 3), (second, 2)]
    assert remembered.of([]) == []
    assert remembered.of([second]) == [(second, 4)]
    assert asked == ["a", "b", "a", "b"]


@pytest.mark.parametrize(
    ("text", "first", "other"),
    [(b"", 0x811C9DC5, 0x811C9DC5), (b"a", 0xE40C292C, 0x050C5D7E), (b"foobar", 0xBF9CF968, 0x31F0B262)],
)
def test_hashes_are_those_of_fowler_noll_and_vo(text: bytes, first: int, other: int) -> None:
    """Values: test vectors of the algorithm's authors (32 bits, FNV-1a and FNV-1)."""
    assert (templates._fnv1a(text), templates._fnv1(text)) == (first, other)
