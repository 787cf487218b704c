"""Deletions without a matching policy or webhook, before and after one is created."""

from __future__ import annotations

import pytest

from apiserver.api.objects import Json
from tests.support.wire import Wire

pytestmark = pytest.mark.integration

MAPS = "/api/v1/namespaces/default/configmaps"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{ADMISSION}/validatingadmissionpolicies", f"{ADMISSION}/validatingadmissionpolicybindings"
WEBHOOKS = f"{ADMISSION}/validatingwebhookconfigurations"


def deleted(wire: Wire) -> int:
    wire.post(MAPS, {"metadata": {"name": "a"}})
    return wire.delete(f"{MAPS}/a").status


def rule(resource: str) -> Json:
    return {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": [resource]}


def policy(resource: str) -> Json:
    checks = [{"expression": "false"}]
    return {
        "metadata": {"name": "p"},
        "spec": {"matchConstraints": {"resourceRules": [rule(resource)]}, "validations": checks},
    }


def test_a_policy_holds_for_deletions_from_its_creation_to_its_end(wire: Wire) -> None:
    assert deleted(wire) == 200
    binding = {"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}
    wire.create(BINDINGS, binding)
    assert deleted(wire) == 200, "the binding binds nothing yet"
    made = wire.post(POLICIES, policy("secrets")).json
    assert deleted(wire) == 200
    made["spec"] = policy("configmaps")["spec"]
    assert wire.put(f"{POLICIES}/p", made).status == 200
    assert deleted(wire) == 422
    assert wire.delete(f"{POLICIES}/p").status == 200
    assert deleted(wire) == 200
    assert wire.delete(f"{BINDINGS}/p").status == 200


def test_a_webhook_is_called_for_deletions_from_its_creation_to_its_end(wire: Wire) -> None:
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
    assert wire.put(f"{WEBHOOKS}/h", made).status == 200
    assert deleted(wire) == 500, "the webhook is unreachable"
    assert wire.delete(f"{WEBHOOKS}/h").status == 200
    assert deleted(wire) == 200
