"""networking.k8s.io: valid ingresses, ingress classes, network policies and addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.api.values.names import object_name
from tests.resources.conftest import Judge

BACKEND: Json = {"service": {"name": "s", "port": {"number": 80}}}


def rule(path: str = "/", kind: str = "Prefix", host: str = "a.example.com", backend: Json = BACKEND) -> Json:
    return {"host": host, "http": {"paths": [{"path": path, "pathType": kind, "backend": backend}]}}


def ingress(*rules: Json, **spec: Any) -> Json:
    return {"spec": {"rules": list(rules), **spec}}


# --- ingresses


@pytest.mark.parametrize(
    ("path", "kind", "wrong"),
    [
        ("/a", "Exact", []),
        ("", "ImplementationSpecific", []),
        ("a", "ImplementationSpecific", ['Invalid value: "a": must be an absolute path']),
        ("/%2fa", "Prefix", ["Invalid value: \"/%2fa\": must not contain '%2f'"]),
        ("/%2fa", "ImplementationSpecific", []),
        ("/a/..", "Exact", ["Invalid value: \"/a/..\": cannot end with '/..'"]),
    ],
)
def test_a_path_is_absolute_and_plain_where_it_is_compared(
    judge: Judge, path: str, kind: str, wrong: list[str]
) -> None:
    at = "spec.rules[0].http.paths[0].path: "
    assert judge.create("ingresses", ingress(rule(path, kind)))[1] == [at + text for text in wrong]


def test_a_backend_is_a_service_or_another_object(judge: Judge) -> None:
    at = "spec.defaultBackend"
    for backend, wrong in (
        ({}, [f'{at}: Invalid value: "": resource or service backend is required']),
        ({"resource": {"kind": "K", "name": "a/b"}}, [f"{at}.resource.name: Invalid value: \"a/b\": may not contain '/'"]),
        ({"service": {"port": {"name": "p"}}}, [f"{at}.service.name: Required value"]),
    ):  # fmt: skip
        assert judge.create("ingresses", {"spec": {"defaultBackend": backend}})[1] == wrong


def test_the_class_of_an_annotation_is_that_of_the_field(judge: Judge) -> None:
    metadata = {"name": "a", "annotations": {"kubernetes.io/ingress.class": "b"}}
    sent: Json = {"metadata": metadata, "spec": {"defaultBackend": BACKEND, "ingressClassName": "c"}}
    assert judge.create("ingresses", sent)[1] == [
        'annotations.kubernetes.io/ingress.class: Invalid value: "b": must match `ingressClassName` when both are specified'
    ]  # fmt: skip
    del sent["spec"]["ingressClassName"]
    resource = judge.find("ingresses")
    assert resource.strategy.warnings_on_create(judge.context(resource), judge.decoded(resource, sent)) == [
        "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"
    ]


def test_what_an_ingress_did_wrong_before_it_may_go_on_doing(judge: Judge, judge_with: Callable[..., Judge]) -> None:
    old, _ = judge.create("ingresses", ingress(rule(), tls=[{"secretName": "a"}]))
    sent = ingress({"host": "*.example.com", "http": {"paths": []}}, tls=[{"secretName": "A_"}])
    wrong = [text.split(":")[0] for text in judge.update("ingresses", old, sent)[1]]
    assert wrong == ["spec.rules[0].http.paths", "spec.tls[0].secretName"]
    odd = judge.decoded(judge.find("ingresses"), sent)
    assert judge.update("ingresses", odd, sent)[1] == []
    strict = judge_with((1, 35))
    digits = ingress(rule(backend={"service": {"name": "1", "port": {"number": 80}}}))
    wrong = [text.split(":")[0] for text in strict.create("ingresses", digits)[1]]
    assert wrong == ["spec.rules[0].http.paths[0].backend.service.name"]
    assert strict.update("ingresses", strict.decoded(strict.find("ingresses"), digits), digits)[1] == []


def test_the_table_counts_the_rules_that_it_does_not_show(judge: Judge) -> None:
    cell = {column.name: column.cell for column in judge.find("ingresses").columns}["Hosts"]
    assert cell(ingress(*(rule(host=host) for host in "abc"))) == "a,b,c"
    assert cell(ingress(*(rule(host=host) for host in "abcd"), rule(host=""))) == "a,b,c + 2 more..."
    assert cell(ingress(rule(host=""))) == "*"


# --- classes


def test_the_parameters_of_a_class_are_of_the_cluster_or_of_a_namespace(judge: Judge) -> None:
    at = "spec.parameters."

    def errors(**parameters: Any) -> list[str]:
        spec = {"controller": "example.com/c", "parameters": {"kind": "K", "name": "n", **parameters}}
        stored, wrong = judge.create("ingressclasses", {"spec": spec})
        assert stored["spec"]["parameters"]["scope"]
        return wrong

    assert errors() == errors(scope="Namespace", namespace="ns") == []
    assert errors(namespace="ns") == [at + "namespace: Forbidden: `parameters.scope` is set to 'Cluster'"]
    assert errors(scope="Namespace") == [at + "namespace: Required value: `parameters.scope` is set to 'Namespace'"]
    assert errors(scope="Zone") == [at + 'scope: Unsupported value: "Zone": supported values: "Cluster", "Namespace"']


def test_a_class_keeps_its_controller_and_counts_its_changes(judge: Judge) -> None:
    old = judge.create_valid("ingressclasses", {"spec": {"controller": "example.com/c"}})
    assert judge.update("ingressclasses", old, {"spec": {"controller": "example.com/d"}})[1] == [
        'spec.controller: Invalid value: "example.com/d": field is immutable'
    ]
    changed = {"spec": {"controller": "example.com/c", "parameters": {"kind": "K", "name": "n"}}}
    assert judge.update("ingressclasses", old, changed)[0]["metadata"]["generation"] == 2


# --- policies


def policy(peer: Json | None = None, port: Json | None = None) -> Json:
    return {"spec": {"egress": [{"to": [peer] if peer is not None else [], "ports": [port] if port else []}]}}


def test_a_policy_is_about_what_it_has_rules_for(judge: Judge) -> None:
    assert judge.create("networkpolicies", {"spec": {}})[0]["spec"]["policyTypes"] == ["Ingress"]
    assert judge.create("networkpolicies", policy())[0]["spec"]["policyTypes"] == ["Ingress", "Egress"]


@pytest.mark.parametrize(
    ("port", "wrong"),
    [
        ({"port": 1, "endPort": 9}, []),
        ({"port": 5, "endPort": 2}, ["endPort: Invalid value: 5: must be greater than or equal to `port`"]),
        ({"port": "a", "endPort": 2}, ["endPort: Invalid value: 2: may not be specified when `port` is non-numeric"]),
        ({"endPort": 2}, ["endPort: Invalid value: 2: may not be specified when `port` is not specified"]),
        ({"protocol": "X"}, ['protocol: Unsupported value: "X": supported values: "TCP", "UDP", "SCTP"']),
    ],
)
def test_a_range_of_ports_begins_with_a_number(judge: Judge, port: Json, wrong: list[str]) -> None:
    at = "spec.egress[0].ports[0]."
    assert judge.create("networkpolicies", policy(port=port))[1] == [at + text for text in wrong]


@pytest.mark.parametrize(
    ("peer", "wrong"),
    [
        ({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}, []),
        ({}, [": Required value: must specify a peer"]),
        (
            {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.0/8", "11.0.0.0/9"]}},
            [
                '.ipBlock.except[0]: Invalid value: "10.0.0.0/8": must be a strict subset of `cidr`',
                '.ipBlock.except[1]: Invalid value: "11.0.0.0/9": must be a strict subset of `cidr`',
            ],
        ),
        (
            {"ipBlock": {"cidr": "10.0.0.1/8"}, "podSelector": {}},
            [
                '.ipBlock.cidr: Invalid value: "10.0.0.1/8": must not have bits set beyond the prefix length',
                ": Forbidden: may not specify both ipBlock and another peer",
            ],
        ),
    ],
)
def test_a_peer_is_addresses_or_pods(judge: Judge, peer: Json, wrong: list[str]) -> None:
    assert judge.create("networkpolicies", policy(peer))[1] == ["spec.egress[0].to[0]" + text for text in wrong]


def test_a_range_that_is_stored_may_stay_as_it_is_and_is_warned_of(judge: Judge) -> None:
    resource, odd = judge.find("networkpolicies"), policy({"ipBlock": {"cidr": "10.0.0.1/8"}})
    old = judge.decoded(resource, odd)
    assert judge.update("networkpolicies", old, odd)[1] == []
    (warning,) = resource.strategy.warnings_on_update(judge.context(resource), old, old)
    ambiguous = 'CIDR value "10.0.0.1/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.0.0.1/32"?)'
    assert warning == f"spec.egress[0].to[0].ipBlock.cidr: {ambiguous}"


# --- addresses


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("fd00::1", []),
        ("010.0.0.1", "must not have leading 0s"),
        ("::ffff:10.0.0.1", "must not be an IPv4-mapped IPv6 address"),
        ("FD00::1", 'must be in canonical form ("fd00::1")'),
    ],
)
def test_an_address_is_named_by_its_canonical_form(name: str, wrong: str) -> None:
    assert object_name("ip", name) == ([wrong] if wrong else [])


def test_a_range_may_only_get_a_second_family(judge: Judge) -> None:
    def cidrs(*listed: str) -> Json:
        return {"spec": {"cidrs": list(listed)}}

    old = judge.create_valid("servicecidrs", cidrs("10.0.0.0/24"))
    assert judge.update("servicecidrs", old, cidrs("10.0.0.0/24", "fd00::/112"))[1] == []
    assert judge.update("servicecidrs", old, cidrs("10.0.0.0/24", "10.1.0.0/24"))[1] != []
    assert judge.update("servicecidrs", old, cidrs())[1] == ["spec.cidrs: Invalid value: []: field is immutable"]
    assert judge.update("servicecidrs", old, {})[1] == ["spec.cidrs: Invalid value: null: field is immutable"]


@pytest.mark.parametrize(("release", "kept"), [((1, 35), True), ((1, 36), False)])
def test_only_the_status_of_a_range_says_whether_it_is_used(
    judge_with: Callable[..., Judge], release: tuple[int, int], kept: bool
) -> None:
    condition = {"type": "Ready", "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    sent = {"spec": {"cidrs": ["10.0.0.0/24"]}, "status": {"conditions": [condition]}}
    assert ("conditions" in judge_with(release).create("servicecidrs", sent)[0]["status"]) is kept
