"""NamespaceLifecycle: refuses writes that conflict with the life of a namespace.

It refuses to create objects in a namespace that is missing or terminating, and to delete built-in namespaces.

Facts: k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apiserver.api.errors import status
from apiserver.registry.store.admission import Attributes, Operation, Plugin, forbidden

if TYPE_CHECKING:
    from apiserver.registry.definition.resource import Resource

__all__ = ["IMMORTAL", "NamespaceLifecycle"]

IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public"})
_REVIEWS: Final = ("authorization.k8s.io", "localsubjectaccessreviews")


class NamespaceLifecycle(Plugin):
    name = "NamespaceLifecycle"
    operations = frozenset({"CREATE", "UPDATE", "DELETE"})

    def handles_operation(self, resource: Resource, operation: Operation) -> bool:
        """Return whether the operation is checked: DELETE only for namespaces themselves."""
        return super().handles_operation(resource, operation) and (
            operation != "DELETE" or resource.plural == "namespaces"
        )

    def admit(self, attributes: Attributes) -> None:
        resource = attributes.resource
        if resource.plural == "namespaces" and not resource.group:
            if attributes.operation == "DELETE" and attributes.name in IMMORTAL:
                raise status.forbidden("namespaces", "", attributes.name, "this namespace may not be deleted")
            return
        namespace = attributes.namespace
        if not namespace or attributes.operation == "DELETE" or (resource.group, resource.plural) == _REVIEWS:
            return
        found = attributes.ctx.lookup("", "namespaces", "", namespace)
        if found is None:
            raise status.not_found("namespaces", "", namespace)
        if attributes.operation == "CREATE" and found.get("status", {}).get("phase") == "Terminating":
            raise self._terminating(attributes, namespace)

    @staticmethod
    def _terminating(attributes: Attributes, namespace: str) -> status.StatusError:
        error = forbidden(
            attributes, f"unable to create new content in namespace {namespace} because it is being terminated"
        )
        assert error.details is not None
        message = f"namespace {namespace} is being terminated"
        error.details["causes"] = [
            {"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}
        ]
        return error
