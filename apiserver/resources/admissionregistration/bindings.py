"""ValidatingAdmissionPolicyBinding and MutatingAdmissionPolicyBinding. Rules: pkg/apis/admissionregistration."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import (
    FieldError,
    Path,
    duplicate,
    invalid,
    not_supported,
    required,
)
from apiserver.api.objects import Json
from apiserver.api.schema.language import Struct
from apiserver.api.types.admissionregistration.policies import V1, V1ALPHA1, V1BETA1
from apiserver.api.validation.items import each_unique
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Version, prerelease
from apiserver.resources.admissionregistration.configurations import ConfigurationStrategy
from apiserver.resources.admissionregistration.paramaccess import reference_errors
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.workloads import count_generation

__all__ = ["MUTATING_BINDINGS", "VALIDATING_BINDINGS"]


_SPEC: Final = Path("spec")
_ACTIONS: Final = ("Audit", "Deny", "Warn")
#: Operations that can be mutated. A deleted object has nothing left to mutate.
MUTATING_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "UPDATE")


def mutating_operation_errors(path: Path, match: Json | None) -> list[FieldError]:
    """Reject operations that mutations cannot match. `path` is the path of the match."""
    return [
        not_supported(path / "resourceRules" / "operations", operation, MUTATING_OPERATIONS)
        for rule in (match or {}).get("resourceRules") or ()
        for operation in rule.get("operations") or ()
        if operation not in MUTATING_OPERATIONS
    ]


def _action_errors(path: Path, actions: list[str]) -> list[FieldError]:
    if not actions:
        return [required(path, "at least one validation action is required")]
    errors: list[FieldError] = []
    for at, action, is_repeated in each_unique(path, actions):
        if action not in _ACTIONS:
            errors.append(not_supported(at, action, _ACTIONS))
        if is_repeated:
            errors.append(duplicate(at, action))
    if {"Deny", "Warn"} <= set(actions):
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API response"
            " and headers serves no purpose)"
        )
        errors.append(invalid(path, actions, text))
    return errors


class BindingStrategy(ConfigurationStrategy):
    """Strategy of policy bindings.

    `spec` is the type of the kind's spec, `policies` the resource of the bound policies.
    """

    def __init__(self, spec: Struct, policies: str) -> None:
        self._spec, self._policies = spec, policies
        self._mutating = policies.startswith("mutating")

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["metadata"]["generation"] = 1

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        count_generation(self._spec, obj, old)

    def content_errors(self, ctx: Context, obj: Json, old: Json | None) -> list[FieldError]:
        spec = obj["spec"]
        errors = RULES.of(self._spec).at(_SPEC, spec).fields("policyName", "paramRef", "matchResources")
        if self._mutating:
            return errors + mutating_operation_errors(_SPEC / "matchResources", spec.get("matchResources"))
        return errors + _action_errors(_SPEC / "validationActions", spec.get("validationActions") or [])

    def access_errors(self, ctx: Context, obj: Json, old: Json | None) -> list[FieldError]:
        return reference_errors(ctx, self._policies, obj["spec"], None if old is None else old["spec"])


def _policy(obj: Json) -> str:
    name: str = obj["spec"].get("policyName", "")
    return name


def _params(obj: Json) -> str:
    ref = obj["spec"].get("paramRef")
    if ref is None:
        return "<unset>"
    if ref.get("name"):
        return f"{ref.get('namespace') or '*'}/{ref['name']}"
    return "<unset>" if ref.get("selector") is None else _shown_selector(ref["selector"])


def _shown_selector(selector: Json) -> str:
    """Format a selector as Go prints the struct."""
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{item.get('key', '')},Operator:{item.get('operator', '')},"
        f"Values:[{' '.join(item.get('values') or ())}],}},"
        for item in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


_COLUMNS: Final = name_and_age(
    Column(name="PolicyName", cell=_policy, description="The bound policy."),
    Column(name="ParamRef", cell=_params, description="Reference to the parameters."),
)

VALIDATING_BINDINGS: Final = Resource(
    group="admissionregistration.k8s.io",
    kind="ValidatingAdmissionPolicyBinding",
    plural="validatingadmissionpolicybindings",
    singular="validatingadmissionpolicybinding",
    namespaced=False,
    categories=("api-extensions",),
    versions=(
        Version(name="v1", schema=V1.ValidatingAdmissionPolicyBinding, introduced=(1, 30)),
        prerelease("v1beta1", V1BETA1.ValidatingAdmissionPolicyBinding, (1, 28)),
    ),
    strategy=BindingStrategy(V1.ValidatingAdmissionPolicyBindingSpec, "validatingadmissionpolicies"),
    storage_prefix="validatingadmissionpolicybindings",
    unconditional_update=False,
    columns=_COLUMNS,
)
MUTATING_BINDINGS: Final = Resource(
    group="admissionregistration.k8s.io",
    kind="MutatingAdmissionPolicyBinding",
    plural="mutatingadmissionpolicybindings",
    singular="mutatingadmissionpolicybinding",
    namespaced=False,
    categories=("api-extensions",),
    versions=(
        Version(name="v1", schema=V1.MutatingAdmissionPolicyBinding, introduced=(1, 36)),
        prerelease("v1beta1", V1BETA1.MutatingAdmissionPolicyBinding, (1, 34)),
        prerelease("v1alpha1", V1ALPHA1.MutatingAdmissionPolicyBinding, (1, 32)),
    ),
    strategy=BindingStrategy(V1.MutatingAdmissionPolicyBindingSpec, "mutatingadmissionpolicies"),
    storage_prefix="mutatingadmissionpolicybindings",
    unconditional_update=False,
    columns=_COLUMNS,
)
