"""Serve access reviews (authorization.k8s.io): answered by the authorizer, never stored.

Facts: pkg/registry/authorization, pkg/apis/authorization/validation. Upstream leaves the kind of an invalid review
empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apiserver.api.errors import status
from apiserver.api.errors.field_errors import FieldError, Path, invalid
from apiserver.api.objects import Json
from apiserver.api.schema.markers import Forbidden, Invalid, Required, equals, is_set, is_unset
from apiserver.api.types.authorization import (
    FieldSelectorAttributes,
    FieldSelectorRequirement,
    LabelSelectorAttributes,
    NonResourceAttributes,
    SelfSubjectAccessReviewSpec,
    SubjectAccessReviewSpec,
)
from apiserver.api.types.meta import EXISTS_HAS_NO_VALUES, IN_NEEDS_VALUES, LabelSelectorRequirement, ObjectMeta
from apiserver.api.validation.compile import Rules
from apiserver.api.validation.internal_values import internal
from apiserver.registry.definition.authority import Authority, Decision, Question
from apiserver.registry.verbs.unstored import validate_admission
from apiserver.request.messages import User

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.definition.options import WriteOptions
    from apiserver.registry.store.store import Store

__all__ = ["review_access", "review_local_access", "review_own_access", "review_own_rules"]


GROUP: Final = "authorization.k8s.io"
_SPEC: Final = Path("spec")
_WITH_VALUES: Final = ("In", "NotIn")
_WITHOUT_VALUES: Final = ("Exists", "DoesNotExist")


def authority_of(store: Store) -> Authority:
    authority = store.registry.authority
    assert authority is not None, "a server has an authorizer"
    return authority


def answer(store: Store, ctx: Context, body: Json, outcome: Json) -> Json:
    found = {
        "kind": store.resource.kind,
        "apiVersion": f"{store.resource.group}/{ctx.version}",
        "metadata": body["metadata"],
    }
    if "spec" in body:
        found["spec"] = body["spec"]
    return {**found, "status": outcome}


# Access


async def review_own_access(store: Store, ctx: Context, body: Json, options: WriteOptions) -> Json:
    """Answer a SelfSubjectAccessReview."""
    spec = _without_selectors(ctx, body)
    _refuse(_RULES.of(SelfSubjectAccessReviewSpec).errors(_SPEC, spec) + _metadata_errors(body))
    await validate_admission(store, ctx, body)
    return await _decide(store, ctx, body, ctx.user)


async def review_access(store: Store, ctx: Context, body: Json, options: WriteOptions) -> Json:
    """Answer a SubjectAccessReview."""
    spec = _without_selectors(ctx, body)
    _refuse(_RULES.of(SubjectAccessReviewSpec).errors(_SPEC, spec) + _metadata_errors(body))
    await validate_admission(store, ctx, body)
    return await _decide(store, ctx, body, _subject(spec))


async def review_local_access(store: Store, ctx: Context, body: Json, options: WriteOptions) -> Json:
    """Answer a LocalSubjectAccessReview, limited to the namespace of the path."""
    spec = _without_selectors(ctx, body)
    errors = _RULES.of(SubjectAccessReviewSpec).errors(_SPEC, spec) + _metadata_errors(body, "namespace")
    resource = spec.get("resourceAttributes")
    if resource is not None and resource.get("namespace", "") != ctx.namespace:
        errors.append(
            invalid(
                _SPEC / "resourceAttributes" / "namespace",
                resource.get("namespace", ""),
                "must match metadata.namespace",
            )
        )
    if spec.get("nonResourceAttributes") is not None:
        shown = internal(NonResourceAttributes, spec["nonResourceAttributes"])
        errors.append(invalid(_SPEC / "nonResourceAttributes", shown, "disallowed on this kind of request"))
    _refuse(errors)
    await validate_admission(store, ctx, body)
    return await _decide(store, ctx, body, _subject(spec))


def _subject(spec: Json) -> User:
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()), extra)


async def _decide(store: Store, ctx: Context, body: Json, user: User) -> Json:
    spec, authority = body["spec"], authority_of(store)
    asked = spec.get("resourceAttributes")
    problems: list[str] = []
    if asked is not None:
        selector = _selector(asked.get("fieldSelector"), problems)
        labels = _labels(asked.get("labelSelector"), problems)
        decision: Decision = await authority.decide(
            user,
            Question(
                asked.get("verb", ""),
                asked.get("group", ""),
                asked.get("resource", ""),
                asked.get("subresource", ""),
                asked.get("namespace", ""),
                asked.get("name", ""),
                selector,
                asked.get("version", ""),
                labels,
            ),
        )
    else:
        path = spec["nonResourceAttributes"]
        decision = await authority.decide_path(user, path.get("verb", ""), path.get("path", ""))
    outcome: Json = {"allowed": decision.allowed}
    if decision.denied:
        outcome["denied"] = True
    if decision.error:
        problems.insert(0, decision.error)
    if decision.reason:
        outcome["reason"] = decision.reason
    if problems:
        outcome["evaluationError"] = "; ".join(problems)
    return answer(store, ctx, body, outcome)


def _selector(given: Json | None, problems: list[str]) -> str:
    """Build a field selector's text.

    Invalid requirements are left out, which widens the question and never narrows it.
    """
    if not given:
        return ""
    requirements = given.get("requirements") or []
    if not requirements:
        return _parsed(given.get("rawSelector", ""), "fieldSelector", problems)
    terms = []
    for each in requirements:
        values = each.get("values") or []
        if each.get("operator") in _WITH_VALUES and len(values) == 1:
            escaped = values[0].replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
            terms.append(f"{each.get('key', '')}{'=' if each['operator'] == 'In' else '!='}{escaped}")
    if len(terms) < len(requirements):
        problems.append(
            f"spec.resourceAttributes.fieldSelector {'partially ' if terms else ''}ignored due to parse error"
        )
    return ",".join(terms)


def _labels(given: Json | None, problems: list[str]) -> str:
    """Build a label selector's text. Invalid requirements are left out, as for field selectors."""
    if not given:
        return ""
    requirements, terms = given.get("requirements") or [], []
    for each in requirements:
        key, values = each.get("key", ""), ",".join(each.get("values") or ())
        operator = each.get("operator")
        if operator in _WITH_VALUES and values:
            terms.append(f"{key} {'in' if operator == 'In' else 'notin'} ({values})")
        elif operator in _WITHOUT_VALUES and not values:
            terms.append(key if operator == "Exists" else f"!{key}")
    if len(terms) < len(requirements):
        problems.append(
            f"spec.resourceAttributes.labelSelector {'partially ' if terms else ''}ignored due to parse error"
        )
    return ",".join(terms) or ("" if requirements else _parsed(given.get("rawSelector", ""), "labelSelector", problems))


def _parsed(raw: str, name: str, problems: list[str]) -> str:
    from apiserver.api.selectors.selectors import SelectorError, parse_fields, parse_labels

    try:
        (parse_labels if name == "labelSelector" else parse_fields)(raw)
    except SelectorError:
        problems.append(f"spec.resourceAttributes.{name} ignored due to parse error")
        return ""
    return raw


# Validation


def _refuse(errors: list[FieldError]) -> None:
    if errors:
        raise status.invalid("", GROUP, "", errors)


def _without_selectors(ctx: Context, body: Json) -> Json:
    """Return the spec, without selectors if AuthorizeWithSelectors is disabled."""
    spec: Json = body["spec"]
    resource = spec.get("resourceAttributes")
    if resource is not None and not ctx.features.enabled("AuthorizeWithSelectors"):
        resource.pop("fieldSelector", None)
        resource.pop("labelSelector", None)
    return spec


_VALUES: Final = (
    Required("values", IN_NEEDS_VALUES, when=equals("operator", *_WITH_VALUES)),
    Forbidden("values", EXISTS_HAS_NO_VALUES, when=equals("operator", *_WITHOUT_VALUES)),
)
_REQUESTS: Final = ("resourceAttributes", "nonResourceAttributes")
_ONE_REQUEST: Final = (
    Invalid(
        "nonResourceAttributes", "cannot be specified in combination with resourceAttributes", when=is_set(*_REQUESTS)
    ),
    Invalid(
        "resourceAttributes", "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        when=is_unset(*_REQUESTS), shown=None,
    ),
)  # fmt: skip
#: Rules of their own, because reviews accept unknown operators, which a newer client may have.
_RULES: Final = Rules()
_RULES.set(FieldSelectorRequirement, Required("key", "must be specified"), *_VALUES)
_RULES.set(LabelSelectorRequirement, *_VALUES, "key", "values")
for _kind, _name in ((FieldSelectorAttributes, "fieldSelector"), (LabelSelectorAttributes, "labelSelector")):
    _RULES.set(
        _kind,
        Invalid(
            "rawSelector", "may not specified at the same time as requirements",
            when=is_set("rawSelector", "requirements"),
        ),
        Required(
            "requirements",
            f"when {_SPEC / 'resourceAttributes' / _name} is specified, requirements or rawSelector is required",
            when=is_unset("rawSelector"),
        ),
        "requirements",
    )  # fmt: skip
_RULES.set(SelfSubjectAccessReviewSpec, *_ONE_REQUEST, "resourceAttributes")
_RULES.set(
    SubjectAccessReviewSpec,
    *_ONE_REQUEST,
    Invalid("user", "at least one of user or group must be specified", when=is_unset("user", "groups")),
    "resourceAttributes",
)


def _metadata_errors(body: Json, *allowed: str) -> list[FieldError]:
    metadata = body["metadata"]
    if not {name for name, value in metadata.items() if value} - {"managedFields", *allowed}:
        return []
    text = f"must be empty{' except for namespace' if allowed else ''}"
    shown = {name: metadata[name] for name in ObjectMeta.fields if name in metadata}
    return [invalid(Path("metadata"), shown, text)]


# Rules


async def review_own_rules(store: Store, ctx: Context, body: Json, options: WriteOptions) -> Json:
    """Answer a SelfSubjectRulesReview with all known rules."""
    namespace = body["spec"].get("namespace", "")
    if not namespace:
        raise status.bad_request("no namespace on request")
    await validate_admission(store, ctx, body)
    found = authority_of(store).rules_for(ctx.user, namespace)
    names = ("verbs", "apiGroups", "resources", "resourceNames")
    outcome: Json = {
        "resourceRules": [
            {name: rule[name] for name in names if rule.get(name)} for rule in found.rules if rule.get("resources")
        ],
        "nonResourceRules": [
            {"verbs": rule["verbs"], "nonResourceURLs": rule["nonResourceURLs"]}
            for rule in found.rules
            if rule.get("nonResourceURLs")
        ],
        "incomplete": found.incomplete,
    }
    if found.error:
        outcome["evaluationError"] = found.error
    return answer(store, ctx, {"metadata": {}, "spec": {}}, outcome)
