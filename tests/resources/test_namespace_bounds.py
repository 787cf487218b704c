"""Endpoints, PodTemplates, LimitRanges and ResourceQuotas: defaults, errors, valid changes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.registry.definition.table import row_of
from tests.resources.conftest import NOW, Judge, find


def endpoints(*addresses: str, **port: Any) -> Json:
    return {"subsets": [{"addresses": [{"ip": address} for address in addresses], "ports": [{"port": 80, **port}]}]}


@pytest.mark.parametrize(("address", "wrong"), [
    ("10.0.0.1", ""), ("127.0.0.1", "may not be in the loopback range (127.0.0.0/8, ::1/128)"), ("::", "may not be unspecified (::)"),
    ("fe80::1", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
    ("224.0.0.1", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ("010.0.0.1", "must not have leading 0s"), ("::ffff:10.0.0.1", "must not be an IPv4-mapped IPv6 address"),
])  # fmt: skip
def test_endpoints_are_addresses_that_others_reach(judge: Judge, address: str, wrong: str) -> None:
    path = "subsets[0].addresses[0].ip"
    assert judge.create("endpoints", endpoints(address))[1] == (
        [f'{path}: Invalid value: "{address}": {wrong}'] if wrong else []
    )


def test_older_releases_take_every_form_of_an_address_and_say_what_is_odd(judge_with: Any) -> None:
    older = judge_with((1, 35))
    made = older.create_valid("endpoints", endpoints("010.0.0.1", "2001:DB8::1"))
    assert find("endpoints").strategy.warnings_on_create(older.context(find("endpoints")), made) == [
        'subsets[0].addresses[0].ip: non-standard IP address "010.0.0.1" is invalid: use "10.0.0.1"',
        'subsets[0].addresses[1].ip: IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")',
    ]
    assert row_of(find("endpoints"), made, NOW)["cells"][1] == "010.0.0.1:80,2001:DB8::1:80".replace(
        "2001:DB8::1", "[2001:DB8::1]"
    )


def test_subsets_that_stay_are_not_judged_again(judge: Judge) -> None:
    old = {"metadata": {"name": "a", "namespace": "ns"}, **endpoints("127.0.0.1", protocol="TCP")}
    assert judge.update("endpoints", old, deepcopy(old))[1] == []
    assert len(judge.update("endpoints", old, {**deepcopy(old), **endpoints("127.0.0.1", port=81)})[1]) == 1


def test_a_changed_template_is_a_new_generation(judge: Judge) -> None:
    made, errors = judge.create("podtemplates", {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}})
    assert (made["metadata"]["generation"], made["template"]["spec"]["restartPolicy"], errors) == (1, "Always", [])
    new = deepcopy(made)
    new["template"]["spec"]["restartPolicy"] = "Never"
    assert judge.update("podtemplates", made, new)[0]["metadata"]["generation"] == 2


def test_defaults_of_a_container_follow_from_its_bounds(judge: Judge) -> None:
    made, errors = judge.create(
        "limitranges",
        {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1Mi"}}]}},
    )
    limit = made["spec"]["limits"][0]
    assert (limit["default"], limit["defaultRequest"], errors) == ({"cpu": "2"}, {"cpu": "2", "memory": "1Mi"}, [])


@pytest.mark.parametrize(("limit", "wrong"), [
    ({"type": "Pod", "default": {"cpu": "1"}}, ["default: Forbidden: may not be specified when `type` is 'Pod'"]),
    ({"type": "PersistentVolumeClaim"}, ["limits: Required value: either minimum or maximum storage value is required, but neither was provided"]),
    ({"type": "Pod", "max": {"cpu": "1"}, "min": {"cpu": "2"}}, ['min[cpu]: Invalid value: "2": min value 2 is greater than max value 1']),
    ({"type": "Pod", "max": {"cpu": "3"}, "min": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "2"}},
     ['maxLimitRequestRatio[cpu]: Invalid value: "2": ratio 2 is greater than max/min = 1.500000']),
    ({"type": "Container", "default": {"example.com/gpu": "2"}, "defaultRequest": {"example.com/gpu": "1"}},
     ['defaultRequest[example.com/gpu]: Invalid value: "1": default value 2 must equal to defaultRequest value 1 in example.com/gpu']),
])  # fmt: skip
def test_bounds_of_a_limit_range_fit_together(judge: Judge, limit: Json, wrong: list[str]) -> None:
    assert judge.create("limitranges", {"spec": {"limits": [limit]}})[1] == [f"spec.limits[0].{text}" for text in wrong]


def test_scopes_of_a_quota_are_about_what_it_counts_and_stay(judge: Judge) -> None:
    made = judge.create_valid(
        "resourcequotas", {"spec": {"hard": {"pods": "2", "cpu": "1"}, "scopes": ["NotBestEffort"]}}
    )
    new = {**deepcopy(made), "spec": {**made["spec"], "scopes": ["Terminating"]}}
    assert judge.update("resourcequotas", made, new)[1] == [
        'spec.scopes: Invalid value: ["Terminating"]: field is immutable'
    ]
    assert judge.create("resourcequotas", {"spec": {"hard": {"services": "1"}, "scopes": ["BestEffort"]}})[1] == [
        'spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource'
    ]
    assert judge.create("resourcequotas", {"spec": {"hard": {"storage": "1"}}})[1] == [
        'spec.hard[storage]: Invalid value: "storage": must be a standard resource for quota'
    ]


def test_a_row_of_a_quota_tells_requests_from_limits(judge: Judge) -> None:
    made, _ = judge.create("resourcequotas", {"spec": {}})
    made["status"] = {"hard": {"pods": "2", "limits.cpu": "4", "cpu": "1"}, "used": {"pods": "1"}}
    assert row_of(find("resourcequotas"), made, NOW)["cells"][1:3] == ["cpu: 0/1, pods: 1/2", "limits.cpu: 0/4"]
