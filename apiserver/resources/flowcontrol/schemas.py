"""FlowSchemas."""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.errors.field_errors import (
    FieldError,
    Named,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.types.flowcontrol import FlowSchema, FlowSchemaSpec
from apiserver.api.validation.internal_values import internal
from apiserver.api.values.names import dns_label, dns_subdomain
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import AGE, NAME
from apiserver.resources.common.workloads import count_generation
from apiserver.resources.flowcontrol.bootstrap import MANDATORY_SCHEMAS

__all__ = ["FLOW_SCHEMAS", "FlowControlStrategy"]

Json = dict[str, Any]
Errors = list[FieldError]

_SPEC: Final = Path("spec")
_CONDITIONS: Final = Path("status") / "conditions"
_LAST: Final = 10000
_METHODS: Final = ("ByNamespace", "ByUser")
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_KINDS: Final = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}


def _alone(path: Path, values: list[str], what: str) -> Errors:
    """A star stands alone."""
    if "*" in values and len(values) > 1:
        return [invalid(path, values, f"if '*' is present, must not specify other {what}")]
    return []


def _subject(path: Path, subject: Json) -> Errors:
    kind = subject.get("kind", "")
    if kind not in _KINDS:
        return [not_supported(path / "kind", Named(kind), tuple(_KINDS))]
    field = _KINDS[kind]
    found, at = subject.get(field), path / field
    if found is None:
        errors = [required(at, f"{field} is required when subject kind is '{kind}'")]
    else:
        name = found.get("name", "")
        errors = [] if name else [required(at / "name")]
        if kind == "ServiceAccount":
            wrong = dns_subdomain(name) if name not in ("", "*") else []
            errors += [invalid(at / "name", name, text) for text in wrong]
            namespace = found.get("namespace", "")
            if not namespace:
                errors.append(required(at / "namespace", "must specify namespace for service account"))
            errors += [
                invalid(at / "namespace", namespace, text) for text in (dns_label(namespace) if namespace else ())
            ]
    for other, name in (("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")):
        if name != field and subject.get(name) is not None:
            errors.append(forbidden(path / name, f"{name} is forbidden when subject kind is not '{other}'"))
    return errors


def _verbs(path: Path, verbs: list[str]) -> Errors:
    if not verbs:
        return [required(path, "verbs must contain at least one value")]
    if "*" in verbs:
        return _alone(path, verbs, "verbs")
    return [] if set(verbs) <= set(_VERBS) else [not_supported(path, verbs, _VERBS)]


def _resource_rule(path: Path, rule: Json) -> Errors:
    errors = _verbs(path / "verbs", rule.get("verbs") or [])
    for field, needed, what in (
        ("apiGroups", "api group", "api groups"), ("resources", "resource", "resources"),
    ):  # fmt: skip
        values = rule.get(field) or []
        if not values:
            errors.append(required(path / field, f"resource rules must supply at least one {needed}"))
        errors += _alone(path / field, values, what)
    namespaces, at = rule.get("namespaces") or [], path / "namespaces"
    if not namespaces and not rule.get("clusterScope"):
        text = "resource rules that are not cluster scoped must supply at least one namespace"
        return [*errors, required(at, text)]
    if "*" in namespaces:
        return errors + _alone(at, namespaces, "namespaces")
    intro = "each member of this list must be '*' or a DNS-1123 label; "
    return errors + [
        invalid(at[index], name, intro + text) for index, name in enumerate(namespaces) for text in dns_label(name)
    ]


def _url(path: Path, url: str) -> Errors:
    if not url:
        return [invalid(path, url, "must not be empty")]
    if url == "/":
        return []
    if not url.startswith("/"):
        return [invalid(path, url, "must start with slash")]
    if " " in url:
        return [invalid(path, url, "must not contain white-space")]
    if "//" in url:
        return [invalid(path, url, "must not contain double slash")]
    stars = url.count("*")
    if stars > 1 or (stars == 1 and not url.endswith("/*")):
        return [invalid(path, url, "wildcard can only do suffix matching")]
    return []


def _path_rule(path: Path, rule: Json) -> Errors:
    errors, urls = _verbs(path / "verbs", rule.get("verbs") or []), rule.get("nonResourceURLs") or []
    at = path / "nonResourceURLs"
    if not urls:
        return [*errors, required(at, "nonResourceURLs must contain at least one value")]
    if "*" in urls:
        return errors + _alone(at, urls, "non-resource URLs")
    return errors + [error for index, url in enumerate(urls) for error in _url(at[index], url)]


def _rule(path: Path, rule: Json) -> Errors:
    subjects = rule.get("subjects") or []
    errors = [] if subjects else [required(path / "subjects", "subjects must contain at least one value")]
    for index, subject in enumerate(subjects):
        errors += _subject((path / "subjects")[index], subject)
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        errors.append(required(path, "at least one of resourceRules and nonResourceRules has to be non-empty"))
    for field, check in (("resourceRules", _resource_rule), ("nonResourceRules", _path_rule)):
        for index, item in enumerate(rule.get(field) or ()):
            errors += check((path / field)[index], item)
    return errors


def _whole(name: str, spec: Json) -> Errors:
    precedence, method = spec.get("matchingPrecedence", 0), spec.get("distinguisherMethod")
    level, at = (spec.get("priorityLevelConfiguration") or {}).get("name", ""), _SPEC / "matchingPrecedence"
    errors: Errors = []
    if precedence <= 0:
        errors.append(invalid(at, precedence, "must be a positive value"))
    if precedence > _LAST:
        errors.append(invalid(at, precedence, f"must not be greater than {_LAST}"))
    if precedence == 1 and name != "exempt":
        errors.append(invalid(at, precedence, "only the schema named 'exempt' may have matchingPrecedence 1"))
    if method is not None and method.get("type", "") not in _METHODS:
        shown = internal(FlowSchemaSpec.fields["distinguisherMethod"].type, method)
        errors.append(not_supported(_SPEC / "distinguisherMethod" / "type", shown, _METHODS))
    at = _SPEC / "priorityLevelConfiguration" / "name"
    errors += [invalid(at, level, text) for text in dns_subdomain(level)] if level else [
        required(at, "must reference a priority level")
    ]  # fmt: skip
    for index, rule in enumerate(spec.get("rules") or ()):
        errors += _rule((_SPEC / "rules")[index], rule)
    fixed = MANDATORY_SCHEMAS.get(name)
    if fixed is not None and not semantic_equal(FlowSchemaSpec, spec, fixed):
        shown = internal(FlowSchemaSpec, spec)
        errors.append(invalid(_SPEC, shown, f"spec of '{name}' must equal the fixed value"))
    return errors


class FlowControlStrategy(Strategy):
    """What schemas and levels have in common."""

    spec_type: Any
    compares_metadata = False
    reset_fields = ("status",)
    status_reset_fields = ("spec", "metadata")

    def errors(self, name: str, spec: Json) -> Errors:
        raise NotImplementedError

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["status"] = {}
        obj["metadata"]["generation"] = 1

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        count_generation(self.spec_type, obj, old)
        obj["status"] = old.get("status", {})

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        managers = obj["metadata"].get("managedFields")
        obj["metadata"] = {**old["metadata"]}
        if managers:
            obj["metadata"]["managedFields"] = managers
        obj["spec"] = old["spec"]

    def validate(self, ctx: Context, obj: Json) -> Errors:
        return self.errors(obj["metadata"].get("name", ""), obj["spec"]) + self._status(obj)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> Errors:
        return self.validate(ctx, obj)

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> Errors:
        return self._status(obj)

    def _status(self, obj: Json) -> Errors:
        errors: Errors = []
        seen: set[str] = set()
        for index, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
            kind, path = condition.get("type", ""), _CONDITIONS[index] / "type"
            if kind in seen:
                errors.append(duplicate(path, Named(kind)))
            seen.add(kind)
            if not kind:
                errors.append(required(path))
        return errors


class FlowSchemaStrategy(FlowControlStrategy):
    spec_type = FlowSchemaSpec

    def errors(self, name: str, spec: Json) -> Errors:
        return _whole(name, spec)


def _method(obj: Json) -> str:
    method = obj["spec"].get("distinguisherMethod")
    return "<none>" if method is None else method.get("type", "")


def _dangling(obj: Json) -> str:
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Dangling":
            status: str = condition.get("status", "")
            return status
    return "?"


def _level(obj: Json) -> str:
    name: str = (obj["spec"].get("priorityLevelConfiguration") or {}).get("name", "")
    return name


def _precedence(obj: Json) -> tuple[int, str]:
    """Requests are matched in this order, and kubectl shows it."""
    return obj["spec"].get("matchingPrecedence", 0), obj["metadata"]["name"]


FLOW_SCHEMAS: Final = Resource(
    group="flowcontrol.apiserver.k8s.io", kind="FlowSchema", plural="flowschemas", singular="flowschema",
    namespaced=False,
    versions=(Version(name="v1", schema=FlowSchema),),
    strategy=FlowSchemaStrategy(), storage_prefix="flowschemas", row_order=_precedence,
    columns=(
        NAME,
        Column(name="PriorityLevel", cell=_level, description="Level of the requests that match."),
        Column(name="MatchingPrecedence", cell=lambda obj: obj["spec"].get("matchingPrecedence", 0),
            description="The lowest counts."),
        Column(name="DistinguisherMethod", cell=_method, description="How requests are told apart."),
        AGE,
        Column(name="MissingPL", cell=_dangling, description="Whether the level is missing."),
    ),
    subresources=(Subresource(name="status"),),
)  # fmt: skip
