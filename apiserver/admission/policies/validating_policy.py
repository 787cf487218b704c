"""ValidatingAdmissionPolicy: expressions of policy objects refuse requests or add warnings.

Facts: apiserver, pkg/admission/plugin/policy/validating.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final

from apiserver.admission.policies.index import GROUP, ManifestSource, PolicyIndex, can_have_policies
from apiserver.api.objects import Json
from apiserver.registry.store.admission import Attributes, Operation, Plugin

if TYPE_CHECKING:
    from apiserver.registry.definition.resource import Resource
    from apiserver.registry.store.store import Registry

__all__ = ["ValidatingAdmissionPolicy"]


_POLICIES: Final = "validatingadmissionpolicies"
_BINDINGS: Final = "validatingadmissionpolicybindings"


class ValidatingAdmissionPolicy(Plugin):
    name = "ValidatingAdmissionPolicy"
    configured_by: tuple[str, str] | None = (GROUP, _BINDINGS)  # Without bindings no policy has an effect.
    depends_on: tuple[tuple[str, str], ...] = ((GROUP, _POLICIES),)
    operations = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})

    def __init__(self, registry: Registry, files: ManifestSource | None = None) -> None:
        """Build the plugin; `files` has further policies."""
        self._registry, self._files = registry, files
        if files is not None:
            self.configured_by, self.depends_on = None, (*self.depends_on, (GROUP, _BINDINGS))

        def compile_policy(policy: Json) -> Any:
            from apiserver.admission.policies.validating import Evaluator

            return Evaluator(policy, registry.features.release)

        self._index = PolicyIndex(registry, _POLICIES, _BINDINGS, compile_policy, files)

    def can_handle(self, attributes: Attributes) -> bool:
        return self._index.can_handle(attributes)

    def handles_operation(self, resource: Resource, operation: Operation) -> bool:
        return super().handles_operation(resource, operation) and can_have_policies(resource, self._files)

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        active = self._index.active(attributes)
        if not active:
            return None
        from apiserver.admission.policies.validating import validate_policies

        return validate_policies(self._registry, attributes, active)
