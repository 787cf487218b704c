"""MutatingAdmissionPolicy: objects are changed by expressions that are objects themselves.

Facts: apiserver, pkg/admission/plugin/policy/mutating.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final

from apiserver.admission.policyindex import GROUP, PolicyIndex, is_policy_kind
from apiserver.registry.admission import Attributes, Operation, Plugin

if TYPE_CHECKING:
    from apiserver.registry.resource import Resource
    from apiserver.registry.store import Registry

__all__ = ["MutatingAdmissionPolicy"]

Json = dict[str, Any]

_GATE: Final = "MutatingAdmissionPolicy"


class MutatingAdmissionPolicy(Plugin):
    name = "MutatingAdmissionPolicy"
    configured_by = (GROUP, "mutatingadmissionpolicybindings")  # without any no policy has an effect
    goes_by = ((GROUP, "mutatingadmissionpolicies"),)
    operations = frozenset({"CREATE", "UPDATE", "CONNECT"})

    def __init__(self) -> None:
        self._registry: Registry | None = None
        self._index: PolicyIndex | None = None

    def use(self, registry: Registry) -> None:
        def compiled(policy: Json) -> Any:
            from apiserver.admission.mutating import Evaluator

            return Evaluator(policy, registry.features.release)

        if registry.features.enabled(_GATE):
            self._registry = registry
            self._index = PolicyIndex(registry, "mutatingadmissionpolicies", self.configured_by[1], compiled)

    def concerns(self, attributes: Attributes) -> bool:
        return self._index is None or self._index.concerns(attributes)

    def wants(self, resource: Resource, operation: Operation) -> bool:
        return self._index is not None and super().wants(resource, operation) and not is_policy_kind(resource)

    def admit(self, attributes: Attributes) -> Awaitable[None] | None:
        if self._index is None or self._registry is None:
            return None
        active = self._index.active(attributes)
        if not active:
            return None
        from apiserver.admission.mutating import mutate

        return mutate(self._registry, attributes, active)
