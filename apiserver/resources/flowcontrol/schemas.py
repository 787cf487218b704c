"""Define FlowSchemas."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Named, Path, duplicate, invalid, not_supported, required
from apiserver.api.objects import Json
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.schema.markers import Invalid, Required, differs, equals, knows
from apiserver.api.types.flowcontrol import FlowSchema, FlowSchemaSpec, NonResourcePolicyRule, ResourcePolicyRule
from apiserver.api.validation.compile import At
from apiserver.api.validation.internal_values import internal
from apiserver.api.validation.items import each_unique
from apiserver.api.values.names import dns_label
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.resources.common.columns import AGE, NAME
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.status import StatusStrategy
from apiserver.resources.flowcontrol.bootstrap import MANDATORY_SCHEMAS

__all__ = ["FLOW_SCHEMAS", "FlowControlStrategy"]

Errors = list[FieldError]

_SPEC: Final = Path("spec")
_CONDITIONS: Final = Path("status") / "conditions"
_METHODS: Final = ("ByNamespace", "ByUser")
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_ONE_NAMESPACE: Final = "resource rules that are not cluster scoped must supply at least one namespace"


def _alone(field: str, what: str) -> Invalid:
    """Reject other values beside a star."""
    text = f"if '*' is present, must not specify other {what}"
    return Invalid(field, text, when=lambda at: _has_star(at, field) and len(at.value[field]) > 1)


def _has_star(at: At, field: str) -> bool:
    return "*" in (at.value.get(field) or ())


def _known_verbs(at: At) -> Errors:
    verbs = at.value.get("verbs") or []
    if "*" in verbs or set(verbs) <= set(_VERBS):
        return []
    return [not_supported(at.path / "verbs", verbs, _VERBS)]


def _namespaces(at: At) -> Errors:
    if _has_star(at, "namespaces"):
        return []
    path, intro = at.path / "namespaces", "each member of this list must be '*' or a DNS-1123 label; "
    return [
        invalid(path[index], name, intro + text)
        for index, name in enumerate(at.value["namespaces"] or ()) for text in dns_label(name)
    ]  # fmt: skip


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


def _urls(at: At) -> Errors:
    path = at.path / "nonResourceURLs"
    urls = () if _has_star(at, "nonResourceURLs") else at.value["nonResourceURLs"] or ()
    return [error for index, url in enumerate(urls) for error in _url(path[index], url)]


def _method(at: At) -> Errors:
    method, path = at.value["distinguisherMethod"], at.path / "distinguisherMethod" / "type"
    shown = internal(FlowSchemaSpec.fields["distinguisherMethod"].type, method)
    return [] if method.get("type", "") in _METHODS else [not_supported(path, shown, _METHODS)]


_VERB_RULES: Final = "verbs", _alone("verbs", "verbs"), _known_verbs
RULES.set(
    ResourcePolicyRule, *_VERB_RULES, "apiGroups", _alone("apiGroups", "api groups"), "resources",
    _alone("resources", "resources"), Required("namespaces", _ONE_NAMESPACE, when=differs("clusterScope", True)),
    _alone("namespaces", "namespaces"), ("namespaces", _namespaces),
)  # fmt: skip
RULES.set(
    NonResourcePolicyRule, *_VERB_RULES, "nonResourceURLs", _alone("nonResourceURLs", "non-resource URLs"),
    ("nonResourceURLs", _urls),
)  # fmt: skip
#: `env` is the name of the schema.
RULES.set(
    FlowSchemaSpec,
    "matchingPrecedence",
    Invalid(
        "matchingPrecedence", "only the schema named 'exempt' may have matchingPrecedence 1",
        when=(equals("matchingPrecedence", 1), knows(lambda env: env != "exempt")),
    ),
    ("distinguisherMethod", _method), "priorityLevelConfiguration", "rules",
)  # fmt: skip


class FlowControlStrategy(StatusStrategy):
    """The common strategy of schemas and levels."""

    compares_metadata = False
    status_reset_fields = ("spec", "metadata")

    def errors(self, name: str, spec: Json) -> Errors:
        raise NotImplementedError

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
        conditions = (obj.get("status") or {}).get("conditions")
        for path, condition, is_repeated in each_unique(_CONDITIONS, conditions, "type"):
            kind = condition.get("type", "")
            if is_repeated:
                errors.append(duplicate(path / "type", Named(kind)))
            if not kind:
                errors.append(required(path / "type"))
        return errors


class FlowSchemaStrategy(FlowControlStrategy):
    spec_type = FlowSchemaSpec

    def errors(self, name: str, spec: Json) -> Errors:
        errors = RULES.of(FlowSchemaSpec).errors(_SPEC, spec, name)
        fixed = MANDATORY_SCHEMAS.get(name)
        if fixed is not None and not semantic_equal(FlowSchemaSpec, spec, fixed):
            shown = internal(FlowSchemaSpec, spec)
            errors.append(invalid(_SPEC, shown, f"spec of '{name}' must equal the fixed value"))
        return errors


def _shown_method(obj: Json) -> str:
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
    """Return the matching order of a schema, which kubectl also uses."""
    return obj["spec"].get("matchingPrecedence", 0), obj["metadata"]["name"]


FLOW_SCHEMAS: Final = Resource(
    group="flowcontrol.apiserver.k8s.io", kind="FlowSchema", plural="flowschemas", singular="flowschema",
    namespaced=False,
    versions=(Version(name="v1", schema=FlowSchema),),
    strategy=FlowSchemaStrategy(), storage_prefix="flowschemas", row_order=_precedence,
    columns=(
        NAME,
        Column(name="PriorityLevel", cell=_level, description="Priority level of matching requests."),
        Column(name="MatchingPrecedence", cell=lambda obj: obj["spec"].get("matchingPrecedence", 0),
            description="Precedence; the lowest matching value wins."),
        Column(name="DistinguisherMethod", cell=_shown_method, description="How requests are divided into flows."),
        AGE,
        Column(name="MissingPL", cell=_dangling, description="Whether the priority level is missing."),
    ),
    subresources=(Subresource(name="status"),),
)  # fmt: skip
