"""Validate the match rules, selectors and match conditions of policies, bindings and webhooks.

Facts: pkg/apis/admissionregistration/validation.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Final

from apiserver.api.errors.field_errors import (
    FieldError,
    Path,
    duplicate,
    internal,
    invalid,
    not_supported,
    required,
    too_many,
)
from apiserver.api.objects import Json
from apiserver.api.types.admissionregistration.policies import V1
from apiserver.api.types.admissionregistration.rules import RuleWithOperations
from apiserver.api.validation.compile import At
from apiserver.api.validation.formats import FORMATS
from apiserver.api.validation.items import each_item, each_unique
from apiserver.api.values.names import label_key
from apiserver.resources.common.core_rules import RULES

if TYPE_CHECKING:
    from apiserver.cel.engine import Compiled, Language
    from apiserver.cel.environments.admission import Result

__all__ = [
    "FAILURE_POLICIES",
    "REINVOCATION_POLICIES",
    "choice",
    "expression_errors",
    "match_condition_errors",
]


FAILURE_POLICIES: Final = ("Fail", "Ignore")
REINVOCATION_POLICIES: Final = ("IfNeeded", "Never")
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_MOST_CONDITIONS: Final = 64


def choice(path: Path, value: str | None, known: Sequence[str]) -> list[FieldError]:
    """Require one of the known values."""
    if value is None:
        return [required(path)]
    return [] if value in known else [not_supported(path, value, tuple(known))]


def _resource_names(at: At) -> list[FieldError]:
    errors: list[FieldError] = []
    for path, name, is_repeated in each_unique(at.path / "resourceNames", at.value["resourceNames"]):
        errors += FORMATS["path-segment"].errors(path, name)
        if is_repeated:
            errors.append(duplicate(path, name))
    return errors


def _rule(at: At) -> list[FieldError]:
    """Validate a RuleWithOperations."""
    path, rule = at.path, at.value
    operations = rule.get("operations") or []
    errors = _needed(path / "operations", operations, "operations")
    errors += [
        not_supported(here, operation, _OPERATIONS)
        for here, operation in each_item(path / "operations", operations)
        if operation not in _OPERATIONS
    ]
    errors += _needed(path / "apiGroups", rule.get("apiGroups") or [], "API groups")
    versions = rule.get("apiVersions") or []
    errors += _needed(path / "apiVersions", versions, "API versions")
    errors += [required(here) for here, version in each_item(path / "apiVersions", versions) if not version]
    errors += _resources_errors(path / "resources", rule.get("resources") or [])
    return errors + at.field("scope")


RULES.set(RuleWithOperations, _rule, by_rules=("operations", "scope"))
RULES.set(V1.NamedRuleWithOperations, ("resourceNames", _resource_names), _rule, by_rules=("operations", "scope"))


def _needed(path: Path, values: list[str], what: str) -> list[FieldError]:
    """Require at least one value, and no other value beside an asterisk."""
    if not values:
        return [required(path)]
    if len(values) > 1 and "*" in values:
        return [invalid(path, values, f"if '*' is present, must not specify other {what}")]
    return []


def _resources_errors(path: Path, resources: list[str]) -> list[FieldError]:
    if not resources:
        return [required(path)]
    errors: list[FieldError] = []
    of_resource: set[str] = set()  # x/*
    of_subresource: set[str] = set()  # */x
    plain = False
    for at, text in each_item(path, resources):
        if not text:
            errors.append(required(at))
            continue
        resource, slash, subresource = text.partition("/")
        if not slash:
            plain = text != "*"
            continue
        if resource in of_resource:
            errors.append(invalid(at, text, f"if '{resource}/*' is present, must not specify {text}"))
        if subresource in of_subresource:
            errors.append(invalid(at, text, f"if '*/{subresource}' is present, must not specify {text}"))
        if subresource == "*":
            of_resource.add(resource)
        if resource == "*":
            of_subresource.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and plain:
        text = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, text))
    return errors


def match_condition_errors(
    path: Path,
    conditions: Sequence[Json],
    release: tuple[int, int],
    *,
    params: bool = False,
    stored: Container[str] = (),
) -> list[FieldError]:
    """Validate match conditions.

    `params`: conditions may refer to params. `stored` are the expressions that were valid before.
    """
    errors: list[FieldError] = []
    if len(conditions) > _MOST_CONDITIONS:
        errors.append(too_many(path, len(conditions), _MOST_CONDITIONS))
    for at, condition, is_repeated in each_unique(path, conditions, "name"):
        errors += _condition_errors(at, condition, release, params=params, stored=stored)
        if is_repeated and condition.get("name"):
            errors.append(duplicate(at / "name", condition["name"]))
    return errors


def _condition_errors(
    path: Path, condition: Json, release: tuple[int, int], *, params: bool, stored: Container[str]
) -> list[FieldError]:
    from apiserver.cel.environments.admission import BOOL_RESULT, Declared, admission_language

    name, expression = condition.get("name", ""), condition.get("expression", "").strip()
    if expression:
        language = admission_language(release, Declared(params=params), stored=expression in stored)
        errors, _ = expression_errors(path / "expression", expression, expression, language, BOOL_RESULT)
    else:
        errors = [required(path / "expression")]
    if not name:
        return [*errors, required(path / "name")]
    return errors + [invalid(path / "name", name, text) for text in label_key(name)]


def expression_errors(
    path: Path, shown: str, expression: str, language: Language, result: Result
) -> tuple[list[FieldError], Compiled | None]:
    """Compile an expression. Return the errors, which show the expression as `shown`, and the compiled program."""
    from apiserver.cel.engine import CompileFailure
    from apiserver.cel.environments.admission import compile_admission

    try:
        return [], compile_admission(expression, language, result)
    except CompileFailure as error:
        return [internal(path, str(error)) if error.internal else invalid(path, shown, str(error))], None
