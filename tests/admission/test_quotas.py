"""ResourceQuota: counting, refusals, and the written usage."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

import pytest

from apiserver.admission.plugins.resource_quota import ResourceQuota
from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from tests.admission.asking import Situation


def quota(hard: Json, used: Json | None = None, *, name: str = "q", namespace: str = "n", **spec: Any) -> Json:
    status = {"hard": hard, **({} if used is None else {"used": used})}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"hard": hard, **spec}, "status": status}


def pod(cpu: str | None = None, **more: Any) -> Json:
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    return {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "resources": resources}], **more}}


def charge(
    quotas: list[Json],
    new: Json,
    old: Json | None = None,
    *,
    plural: str = "pods",
    plugin: ResourceQuota | None = None,
    **more: Any,
) -> dict[str, Json] | str:
    """Return the usage of each written quota, or the refusal."""
    written: dict[str, Json] = {}
    stored = {each["metadata"]["name"]: each for each in deepcopy(more.pop("stored", quotas))}

    async def rewrite(
        group: str, plural: str, namespace: str, name: str, change: Any, *, subresource: str = ""
    ) -> None:
        assert (group, plural, namespace, subresource) == ("", "resourcequotas", "n", "status")
        written[name] = change(stored[name])["status"]["used"]

    situation = Situation({"resourcequotas": quotas}, dry_run=more.pop("dry_run", False), rewrite=rewrite)
    operation: Any = "CREATE" if old is None else "UPDATE"
    try:
        waiting = (plugin or ResourceQuota()).validate(situation.request(operation, plural, new, old, **more))
        if waiting is not None:

            async def waited() -> None:
                await waiting

            asyncio.run(waited())
    except StatusError as error:
        return error.message.partition(" is forbidden: ")[2] or f"{error.code} {error.message}"
    return written


def test_a_new_object_is_charged_to_each_quota_that_limits_it() -> None:
    quotas = [
        quota({"pods": "2", "requests.cpu": "1"}, {"pods": "1", "requests.cpu": "500m", "secrets": "7"}),
        quota({"pods": "9"}, {"pods": "0"}, name="r"),
        quota({"secrets": "1"}, {"secrets": "1"}, name="other"),
        quota({"pods": "0"}, {"pods": "0"}, name="elsewhere", namespace="m"),
    ]
    assert charge(quotas, pod("500m")) == {
        "q": {"pods": "2", "requests.cpu": "1", "secrets": "7"}, "r": {"pods": "1"},
    }  # fmt: skip
    assert charge(quotas, pod("500m"), dry_run=True) == {}
    assert charge(quotas, pod("500m"), subresource="binding") == {}
    assert charge([], pod()) == {}


def test_a_request_beyond_a_quota_is_refused_with_all_exceeded_resources() -> None:
    one = quota(
        {"pods": "1", "requests.cpu": "1", "count/pods": "9"}, {"pods": "1", "requests.cpu": "1", "count/pods": "0"}
    )
    assert charge([one], pod("2")) == (
        "exceeded quota: q, requested: pods=1,requests.cpu=2, used: pods=1,requests.cpu=1, limited: pods=1,requests.cpu=1"
    )
    assert charge([quota({"pods": "1"}, {"pods": "0"})], pod()) == {"q": {"pods": "1"}}


def test_an_earlier_charge_is_seen_when_the_quota_is_written() -> None:
    seen, stored = quota({"pods": "1"}, {"pods": "0"}), quota({"pods": "1"}, {"pods": "1"})
    assert charge([seen], pod(), stored=[stored]) == (
        "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
    )


def test_a_pod_says_what_a_quota_counts_and_a_quota_has_been_counted() -> None:
    limits = quota({"requests.cpu": "9", "limits.memory": "9"}, {"requests.cpu": "0", "limits.memory": "0"})
    assert charge([limits], pod("1")) == "failed quota: q: must specify limits.memory for: c"
    assert charge([limits], pod()) == ("failed quota: q: must specify limits.memory for: c; requests.cpu for: c")
    assert charge([quota({"pods": "1"})], pod()) == "status unknown for quota: q, resources: pods"
    half = quota({"pods": "1", "requests.cpu": "1"}, {"pods": "0"})
    assert charge([half], pod("1")) == "status unknown for quota: q, resources: pods,requests.cpu"
    uncounted = quota({"pods": "1"})
    uncounted["status"] = {}
    assert charge([uncounted], pod()) == {}


def test_a_quota_with_a_scope_counts_what_is_in_it() -> None:
    short = quota({"pods": "0"}, {"pods": "0"}, scopes=["Terminating"])
    assert charge([short], pod()) == {}
    assert "exceeded quota" in charge([short], pod(activeDeadlineSeconds=5))


def claim(size: str, **more: Any) -> Json:
    return {"metadata": {"name": "x"}, "spec": {"resources": {"requests": {"storage": size}}, **more}}


def test_an_update_is_charged_what_it_takes_more() -> None:
    quotas = [quota({"requests.storage": "5Gi", "persistentvolumeclaims": "1"}, {"requests.storage": "1Gi", "persistentvolumeclaims": "1"})]  # fmt: skip
    of: Json = {"plural": "persistentvolumeclaims"}
    assert charge(quotas, claim("3Gi"), claim("1Gi"), **of) == {
        "q": {"requests.storage": "3Gi", "persistentvolumeclaims": "1"}
    }
    assert charge(quotas, claim("1Gi"), claim("3Gi"), **of) == charge(quotas, claim("1Gi"), claim("1Gi"), **of) == {}
    assert charge(quotas, claim("6Gi"), claim("1Gi"), **of) == (
        "exceeded quota: q, requested: requests.storage=5Gi, used: requests.storage=1Gi, limited: requests.storage=5Gi"
    )


NEEDING: Json = {"resource": "pods", "matchContains": ["cpu"]}


def test_a_resource_that_needs_a_quota_is_refused_without_one() -> None:
    plugin = ResourceQuota([NEEDING])
    assert plugin.configured_by is None
    assert ResourceQuota().configured_by == ("", "resourcequotas")
    words = "insufficient quota to consume: cpu,requests.cpu"
    assert charge([], pod("1"), plugin=plugin) == words
    assert charge([], pod(), plugin=plugin) == {}
    assert charge([quota({"pods": "1"}, {"pods": "0"})], pod("1"), plugin=plugin) == words
    both = {"cpu": "9", "requests.cpu": "9"}
    assert charge([quota(both, {"cpu": "0", "requests.cpu": "0"})], pod("1"), plugin=plugin) == {
        "q": {"cpu": "1", "requests.cpu": "1"}
    }
    for other in ({"resource": "services"}, {"apiGroup": "apps"}, {"matchContains": ["memory"]}):
        assert charge([], pod("1"), plugin=ResourceQuota([NEEDING | other])) == {}


def test_a_scope_that_needs_a_quota_has_one() -> None:
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": ["high", "top"]}
    plugin = ResourceQuota([{"resource": "pods", "matchScopes": [scope]}])
    assert charge([], pod(priorityClassName="high"), plugin=plugin) == (
        "500 insufficient quota to match these scopes: [{PriorityClass In [high top]}]"
    )
    assert charge([], pod(priorityClassName="low"), plugin=plugin) == {}
    covering = quota({"pods": "1"}, {"pods": "0"}, scopeSelector={"matchExpressions": [scope]})
    assert charge([covering], pod(priorityClassName="top"), plugin=plugin) == {"q": {"pods": "1"}}


@pytest.mark.parametrize(
    ("group", "plural", "namespaced", "operations"),
    [
        ("", "pods", True, ["CREATE", "UPDATE"]),
        ("resource.k8s.io", "resourceclaims", True, ["CREATE", "UPDATE"]),
        ("", "secrets", True, ["CREATE"]),
        ("", "nodes", False, []),
        ("", "events", True, []),
    ],
)
def test_creations_and_growing_updates_are_counted(
    group: str, plural: str, namespaced: bool, operations: list[str]
) -> None:
    resource = Situation().request("CREATE", plural, {}, group=group, namespace="n" if namespaced else "").resource
    everything: Any = ("CREATE", "UPDATE", "DELETE", "CONNECT")
    assert [
        operation for operation in everything if ResourceQuota().handles_operation(resource, operation)
    ] == operations
