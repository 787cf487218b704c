"""Builders of objects that extend the API: definitions of custom resources, and webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apiserver.api.objects import Json


def make_version(name: str = "v1", schema: Json | None = None, *, storage: bool = True, **fields: Any) -> Json:
    """Build a served version of a custom resource."""
    validation = {"openAPIV3Schema": schema or {"type": "object"}}
    return {"name": name, "served": True, "storage": storage, "schema": validation, **fields}


def make_definition(
    plural: str, kind: str, *versions: Json, group: str = "example.com", scope: str = "Namespaced", **spec: Any
) -> Json:
    """Build a CustomResourceDefinition, by default with one version."""
    names = {"plural": plural, "kind": kind}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": scope, "names": names, "versions": list(versions or [make_version()]), **spec},
    }  # fmt: skip


def make_rule(*resources: str, group: str = "", versions: Sequence[str] = ("v1",), operations: str = "*") -> Json:
    """Build the rule of a webhook or of a policy; `operations` are separated by commas."""
    wanted = {"operations": operations.split(","), "resources": list(resources)}
    return {"apiGroups": [group], "apiVersions": list(versions), **wanted}


def make_webhook(name: str, url: str, *rules: Json, **more: Any) -> Json:
    """Build a webhook without side effects."""
    fixed = {"sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": {"url": url}}
    return {"name": f"{name}.example.com", "rules": list(rules), **fixed, **more}
