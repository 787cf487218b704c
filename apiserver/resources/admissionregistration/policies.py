"""Validate ValidatingAdmissionPolicies and MutatingAdmissionPolicies.

Rules: pkg/apis/admissionregistration/validation. Expressions are compiled when a policy is written, in the language of
the previous release. Expressions of the stored policy may use the language of this release.
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.errors.field_errors import FieldError, Path, invalid, required
from apiserver.api.objects import Json
from apiserver.api.types.admissionregistration.policies import V1, V1ALPHA1, V1BETA1
from apiserver.api.values.names import dns1035_label, dns_subdomain
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.metadata import keep_metadata_for_status
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version, prerelease
from apiserver.resources.admissionregistration.bindings import mutating_operation_errors
from apiserver.resources.admissionregistration.configurations import ConfigurationStrategy
from apiserver.resources.admissionregistration.matchrules import (
    FAILURE_POLICIES,
    choice,
    match_condition_errors,
)
from apiserver.resources.admissionregistration.paramaccess import kind_errors
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.conditions import validate_conditions
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.workloads import count_generation
from apiserver.resources.customresources.jsonpaths import JsonPathError, compile_path

__all__ = ["MUTATING_POLICIES", "VALIDATING_POLICIES"]


_SPEC: Final = Path("spec")
_STATUS: Final = Path("status")


def _kind_errors(path: Path, kind: Json) -> list[FieldError]:
    """Validate a ParamKind."""
    version_text, name = kind.get("apiVersion", ""), kind.get("kind", "")
    errors: list[FieldError] = []
    at = path / "apiVersion"
    if not version_text:
        errors.append(required(at))
    elif version_text.count("/") > 1:
        errors.append(invalid(at, version_text, f"unexpected GroupVersion string: {version_text}"))
    else:
        group, _, version = version_text.rpartition("/")
        if group and (texts := dns_subdomain(group)):
            errors.append(invalid(at, group, ",".join(texts)))
        if not version:
            errors.append(invalid(at, version_text, "version must be specified"))
        elif texts := dns1035_label(version):
            errors.append(invalid(at, version, ",".join(texts)))
    if not name:
        errors.append(required(path / "kind"))
    elif texts := dns1035_label(name.lower()):
        text = f"may have mixed case, but should otherwise match: {','.join(texts)}"
        errors.append(invalid(path / "kind", name, text))
    return errors


class _PolicyStrategy(ConfigurationStrategy):
    """The common strategy of both policy kinds."""

    def _expressions(self, ctx: Context, obj: Json, old: Json | None) -> list[FieldError]:
        raise NotImplementedError

    def content_errors(self, ctx: Context, obj: Json, old: Json | None) -> list[FieldError]:
        spec, before = obj["spec"], None if old is None else old["spec"]
        errors = choice(_SPEC / "failurePolicy", spec.get("failurePolicy"), FAILURE_POLICIES)
        if spec.get("paramKind") is not None:
            errors += _kind_errors(_SPEC / "paramKind", spec["paramKind"])
        at, match = _SPEC / "matchConstraints", spec.get("matchConstraints")
        if match is None:
            errors.append(required(at))
        else:
            errors += RULES.of(V1.MatchResources).errors(at, match)
            if not match.get("resourceRules"):
                errors.append(required(at / "resourceRules"))
            errors += self._operation_errors(at, match)
        shared = ("paramKind", "matchConditions")
        if before is None or any(spec.get(name) != before.get(name) for name in shared):
            errors += match_condition_errors(
                _SPEC / "matchConditions",
                spec.get("matchConditions") or (),
                ctx.features.release,
                params=spec.get("paramKind") is not None,
                stored={item["expression"] for item in (before or {}).get("matchConditions") or ()},
            )
        return errors + self._expressions(ctx, obj, old)

    def _operation_errors(self, path: Path, match: Json) -> list[FieldError]:
        return []

    def access_errors(self, ctx: Context, obj: Json, old: Json | None) -> list[FieldError]:
        return kind_errors(ctx, obj["spec"].get("paramKind"), None if old is None else old["spec"].get("paramKind"))


class ValidatingPolicyStrategy(_PolicyStrategy):
    reset_fields = ("status",)

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["status"] = {}
        obj["metadata"]["generation"] = 1

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["status"] = old.get("status", {})
        count_generation(V1.ValidatingAdmissionPolicySpec, obj, old)

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["spec"] = old["spec"]
        keep_metadata_for_status(obj, old)

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        status = obj.get("status") or {}
        errors: list[FieldError] = []
        path = _STATUS / "typeChecking" / "expressionWarnings"
        for index, warning in enumerate((status.get("typeChecking") or {}).get("expressionWarnings") or ()):
            if not warning.get("warning"):
                errors.append(required(path[index] / "warning"))
            errors += _field_errors(path[index] / "fieldRef", warning.get("fieldRef", "").strip())
        return errors + validate_conditions(_STATUS / "conditions", status.get("conditions"))

    def _expressions(self, ctx: Context, obj: Json, old: Json | None) -> list[FieldError]:
        from apiserver.resources.admissionregistration.policyexpressions import validating_errors

        return validating_errors(ctx.features.release, obj, old)


def _field_errors(path: Path, text: str) -> list[FieldError]:
    """Validate a field reference: a JSONPath that may begin with a name."""
    if not text:
        return [required(path)]
    try:
        compile_path(text if text[0] in ".[" else f".{text}")
    except JsonPathError as error:
        return [invalid(path, text, f"invalid JSONPath: {error}")]
    return []


class MutatingPolicyStrategy(_PolicyStrategy):
    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["metadata"]["generation"] = 1

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        count_generation(V1.MutatingAdmissionPolicySpec, obj, old)

    def _operation_errors(self, path: Path, match: Json) -> list[FieldError]:
        return mutating_operation_errors(path, match)

    def _expressions(self, ctx: Context, obj: Json, old: Json | None) -> list[FieldError]:
        from apiserver.resources.admissionregistration.policyexpressions import mutating_errors

        return mutating_errors(ctx.features.release, obj, old)


def _count(field: str) -> Any:
    return lambda obj: len(obj["spec"].get(field) or ())


def _kind(obj: Json) -> str:
    kind = obj["spec"].get("paramKind")
    return "<unset>" if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"


_KIND: Final = Column(name="ParamKind", cell=_kind, description="Kind of the parameters.")

VALIDATING_POLICIES: Final = Resource(
    group="admissionregistration.k8s.io",
    kind="ValidatingAdmissionPolicy",
    plural="validatingadmissionpolicies",
    singular="validatingadmissionpolicy",
    namespaced=False,
    categories=("api-extensions",),
    versions=(
        Version(name="v1", schema=V1.ValidatingAdmissionPolicy, introduced=(1, 30)),
        prerelease("v1beta1", V1BETA1.ValidatingAdmissionPolicy, (1, 28)),
    ),
    strategy=ValidatingPolicyStrategy(),
    storage_prefix="validatingadmissionpolicies",
    unconditional_update=False,
    columns=name_and_age(
        Column(
            name="Validations", cell=_count("validations"), type="integer", description="Number of validation rules."
        ),
        _KIND,
    ),
    subresources=(Subresource(name="status"),),
)
MUTATING_POLICIES: Final = Resource(
    group="admissionregistration.k8s.io",
    kind="MutatingAdmissionPolicy",
    plural="mutatingadmissionpolicies",
    singular="mutatingadmissionpolicy",
    namespaced=False,
    categories=("api-extensions",),
    versions=(
        Version(name="v1", schema=V1.MutatingAdmissionPolicy, introduced=(1, 36)),
        prerelease("v1beta1", V1BETA1.MutatingAdmissionPolicy, (1, 34)),
        prerelease("v1alpha1", V1ALPHA1.MutatingAdmissionPolicy, (1, 32)),
    ),
    strategy=MutatingPolicyStrategy(),
    storage_prefix="mutatingadmissionpolicies",
    unconditional_update=False,
    columns=name_and_age(
        Column(name="Mutations", cell=_count("mutations"), type="integer", description="Number of mutations."), _KIND
    ),
)
