"""Deletions of which no policy and no webhook has anything to say ask none, until one comes that has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from apiserver.api.objects import Json
from tests.support.server import serve
from tests.support.wire import Wire

pytestmark = pytest.mark.integration

MAPS = "/api/v1/namespaces/default/configmaps"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{ADMISSION}/validatingadmissionpolicies", f"{ADMISSION}/validatingadmissionpolicybindings"
WEBHOOKS = f"{ADMISSION}/validatingwebhookconfigurations"


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with serve() as server:
        yield Wire(server.url)


def deleted(wire: Wire) -> int:
    wire.post(MAPS, {"metadata": {"name": "a"}})
    return wire.request("DELETE", f"{MAPS}/a").status


def rule(resource: str) -> Json:
    return {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": [resource]}


def policy(resource: str) -> Json:
    checks = [{"expression": "false"}]
    return {
        "metadata": {"name": "p"},
        "spec": {"matchConstraints": {"resourceRules": [rule(resource)]}, "validations": checks},
    }


def test_a_policy_counts_from_its_first_deletion_on_and_one_that_goes_no_more(wire: Wire) -> None:
    assert deleted(wire) == 200
    binding = {"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}
    assert wire.post(BINDINGS, binding).status == 201
    assert deleted(wire) == 200, "the binding binds nothing yet"
    made = wire.post(POLICIES, policy("secrets")).json
    assert deleted(wire) == 200
    made["spec"] = policy("configmaps")["spec"]
    assert wire.request("PUT", f"{POLICIES}/p", made).status == 200
    assert deleted(wire) == 422
    assert wire.request("DELETE", f"{POLICIES}/p").status == 200
    assert deleted(wire) == 200
    assert wire.request("DELETE", f"{BINDINGS}/p").status == 200


def test_a_webhook_counts_from_its_first_deletion_on(wire: Wire) -> None:
    def hook(resource: str) -> Json:
        where = {"url": "https://127.0.0.1:1/"}
        base = {
            "name": "h.example.com",
            "clientConfig": where,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        return {"metadata": {"name": "h"}, "webhooks": [{**base, "rules": [rule(resource)]}]}

    made = wire.post(WEBHOOKS, hook("secrets")).json
    assert deleted(wire) == 200
    made["webhooks"] = hook("configmaps")["webhooks"]
    assert wire.request("PUT", f"{WEBHOOKS}/h", made).status == 200
    assert deleted(wire) == 500, "nobody is there who could be asked"
    assert wire.request("DELETE", f"{WEBHOOKS}/h").status == 200
    assert deleted(wire) == 200
