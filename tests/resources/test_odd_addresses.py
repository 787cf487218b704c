"""Ambiguous addresses of pods and nodes (gate StrictIPCIDRValidation)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.resources.core.nodes import NODES
from apiserver.resources.pods.warnings import pod_warnings, status_warnings
from tests.resources.pods import errors, pod
from tests.resources.test_tolerations import templates

GATE = "StrictIPCIDRValidation"
ZEROS = "must not have leading 0s"
SPEC = {"dnsConfig": {"nameservers": ["010.0.0.1"]}, "hostAliases": [{"ip": "::ffff:1.2.3.4", "hostnames": ["a"]}]}


def with_odd_addresses(kind: str) -> Json:
    """Build an object of a kind that embeds a pod spec with such addresses."""
    found = obj = templates({"key": "k", "operator": "Exists"})[kind]
    while "containers" not in obj:
        parts: Json = obj.get("spec", obj)
        obj = parts.get("template") or parts.get("jobTemplate") or parts
    obj.update(SPEC)
    return found


@pytest.mark.parametrize("kind", templates({}))
def test_a_pods_spec_has_none_wherever_it_stands(judge_with: Callable[..., Any], kind: str) -> None:
    _, found = judge_with().create(kind, with_odd_addresses(kind))
    nameserver, alias = [error for error in found if "Invalid value" in error]
    assert nameserver.endswith(f'spec.dnsConfig.nameservers[0]: Invalid value: "010.0.0.1": {ZEROS}')
    assert alias.endswith('[0].ip: Invalid value: "::ffff:1.2.3.4": must not be an IPv4-mapped IPv6 address')
    assert judge_with(**{GATE: False}).create(kind, with_odd_addresses(kind))[1] == []


def test_a_status_has_none_but_those_that_it_had(judge_with: Callable[..., Any]) -> None:
    status = {
        "podIP": "1.2.3.04", "podIPs": [{"ip": "1.2.3.04"}], "hostIP": "01.2.3.4", "hostIPs": [{"ip": "01.2.3.4"}]
    }  # fmt: skip
    old, _ = judge_with().create("pods", pod())
    new = {**pod(), "status": status}
    kept, found = judge_with().update("pods", old, new, status=True)
    assert found == [
        f'status.podIPs[0]: Invalid value: "1.2.3.04": {ZEROS}',
        f'status.hostIPs[0]: Invalid value: "01.2.3.4": {ZEROS}',
    ]
    assert judge_with(**{GATE: False}).update("pods", old, new, status=True)[1] == []
    assert judge_with().update("pods", kept, new, status=True)[1] == []


def test_a_nodes_ranges_have_none(judge_with: Callable[..., Any]) -> None:
    node = {"spec": {"podCIDRs": ["10.0.0.1/24"]}}
    wrong = 'spec.podCIDRs[0]: Invalid value: "10.0.0.1/24": must not have bits set beyond the prefix length'
    assert judge_with().create("nodes", node)[1] == [wrong]
    assert judge_with(**{GATE: False}).create("nodes", node)[1] == []
    (said,) = NODES.strategy.warnings_on_create(None, {"spec": {"podCIDRs": ["2001:DB8::/64"]}})  # type: ignore[arg-type]
    assert said.startswith('spec.podCIDRs[0]: IPv6 CIDR value "2001:DB8::/64" should be in RFC 5952 canonical format')


def test_forms_that_are_only_unusual_are_warned_of() -> None:
    odd = 'IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")'
    spec = {"dnsConfig": {"nameservers": ["2001:DB8::1"]}, "hostAliases": [{"ip": "2001:DB8::1"}]}
    assert pod_warnings({"metadata": {}, "spec": spec}) == [
        f"spec.dnsConfig.nameservers[0]: {odd}", f"spec.hostAliases[0].ip: {odd}"
    ]  # fmt: skip
    status = {"podIPs": [{"ip": "2001:DB8::1"}], "hostIPs": [{"ip": "1.2.3.4"}, {"ip": "2001:DB8::1"}]}
    assert status_warnings(status) == [f"status.podIPs[0].ip: {odd}", f"status.hostIPs[1].ip: {odd}"]


def test_a_pod_without_odd_addresses_is_as_it_was(judge_with: Callable[..., Any]) -> None:
    usual = pod(dnsConfig={"nameservers": ["10.0.0.1"]}, hostAliases=[{"ip": "fe80::1", "hostnames": ["a"]}])
    assert errors(judge_with(), usual) == []
