"""Compile the expressions of policies and check their result types. This module imports CEL.

Facts: pkg/apis/admissionregistration/validation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, duplicate, invalid, not_supported, required
from apiserver.api.objects import Json
from apiserver.api.types.admissionregistration.policies import V1
from apiserver.api.validation.internal_values import internal
from apiserver.api.validation.items import each_item, each_unique
from apiserver.api.values.names import label_key
from apiserver.cel.checking.schemas import RESERVED
from apiserver.cel.engine import Compiled, Language
from apiserver.cel.environments.admission import (
    ANNOTATION_RESULT,
    ANY_RESULT,
    APPLY_RESULT,
    BOOL_RESULT,
    PATCH_RESULT,
    STRING_RESULT,
    Declared,
    Result,
    admission_language,
    with_variable,
)
from apiserver.cel.language.types import Type
from apiserver.resources.admissionregistration.matchrules import REINVOCATION_POLICIES, choice, expression_errors

__all__ = ["mutating_errors", "validating_errors"]

Release = tuple[int, int]

_SPEC: Final = Path("spec")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_PATCH_TYPES: Final = ("ApplyConfiguration", "JSONPatch")
_MOST_ANNOTATIONS: Final = 20
_LONGEST_ANNOTATION: Final = 5 * 1024
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_LINES: Final = re.compile(r"[\n\r]")
_MUST: Final = "validations or auditAnnotations must contain at least one item"


class _Compiler:
    """The compiler of one policy's expressions, with the variables that precede them."""

    def __init__(self, release: Release, *, params: bool, variables: bool) -> None:
        self._release, self._params, self._composed = release, params, variables
        self._variables: list[tuple[str, Type | None]] = []

    def _language(self, *, stored: bool, authorizer: bool = True, patches: bool = False) -> Language:
        declared = Declared(self._params, authorizer, patches, self._composed)
        language = admission_language(self._release, declared, stored=stored)
        for name, type_ in self._variables:
            language = with_variable(language, name, type_)
        return language

    def errors(
        self,
        path: Path,
        expression: str,
        result: Result,
        *,
        stored: bool,
        shown: str | None = None,
        authorizer: bool = True,
        patches: bool = False,
    ) -> list[FieldError]:
        language = self._language(stored=stored, authorizer=authorizer, patches=patches)
        return expression_errors(path, expression if shown is None else shown, expression, language, result)[0]

    def variable(self, path: Path, name: str, expression: str, *, stored: bool) -> list[FieldError]:
        """Compile a variable and declare it for the following expressions."""
        compiled: Compiled | None
        errors, compiled = expression_errors(path, expression, expression, self._language(stored=stored), ANY_RESULT)
        self._variables.append((name, None if compiled is None else compiled.output))
        return errors


def _texts(items: Iterable[Json] | None, field: str) -> set[str]:
    return {item.get(field, "") for item in items or ()}


def _variables(compiler: _Compiler, spec: Json, stored: set[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    for at, variable in each_item(_SPEC / "variables", spec.get("variables")):
        name, expression = variable.get("name", ""), variable.get("expression", "")
        if not name.strip():
            errors.append(required(at / "name", "name is not specified"))
        elif not _IDENTIFIER.fullmatch(name) or name in RESERVED:
            errors.append(invalid(at / "name", name, "must be a valid CEL identifier"))
        if not expression.strip():
            errors.append(required(at / "expression", "expression is not specified"))
        else:
            errors += compiler.variable(at / "expression", name, expression, stored=expression in stored)
    return errors


def validating_errors(release: Release, obj: Json, old: Json | None) -> list[FieldError]:
    """Validate the variables, validations and audit annotations of a ValidatingAdmissionPolicy."""
    spec, before = obj["spec"], {} if old is None else old["spec"]
    rules, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
    compiler = _Compiler(release, params=spec.get("paramKind") is not None, variables=bool(spec.get("variables")))
    known = _texts(before.get("validations"), "expression") | _texts(before.get("variables"), "expression")
    errors = _variables(compiler, spec, known)
    if not rules and not annotations:
        return [*errors, required(_SPEC / "validations", _MUST), required(_SPEC / "auditAnnotations", _MUST)]
    messages = _texts(before.get("validations"), "messageExpression")
    for index, rule in enumerate(rules):
        errors += _rule_errors(compiler, (_SPEC / "validations")[index], rule, known, messages)
    path = _SPEC / "auditAnnotations"
    if len(annotations) > _MOST_ANNOTATIONS:
        shown = [internal(V1.AuditAnnotation, item) for item in annotations]
        errors.append(invalid(path, shown, f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"))
    stored = _texts(before.get("auditAnnotations"), "valueExpression")
    for at, annotation, is_repeated in each_unique(path, annotations, "key"):
        errors += _annotation_errors(compiler, at, obj["metadata"].get("name", ""), annotation, stored)
        if is_repeated:
            errors.append(duplicate(at / "key", annotation.get("key", "")))
    return errors


def _rule_errors(compiler: _Compiler, path: Path, rule: Json, stored: set[str], messages: set[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    expression, message = rule.get("expression", ""), rule.get("message", "")
    if not expression.strip():
        errors.append(required(path / "expression", "expression is not specified"))
    else:
        errors += compiler.errors(path / "expression", expression, BOOL_RESULT, stored=expression in stored)
    text = rule.get("messageExpression", "")
    if text and not text.strip():
        errors.append(invalid(path / "messageExpression", text, "must be non-empty if specified"))
    elif text:
        errors += compiler.errors(
            path / "messageExpression", text, STRING_RESULT, stored=text in messages, authorizer=False
        )
    if message and not message.strip():
        errors.append(invalid(path / "message", message, "must be non-empty if specified"))
    elif _LINES.search(message.strip()):
        errors.append(invalid(path / "message", message, "must not contain line breaks"))
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        errors.append(not_supported(path / "reason", reason, _REASONS))
    return errors


def _annotation_errors(
    compiler: _Compiler, path: Path, name: str, annotation: Json, stored: set[str]
) -> list[FieldError]:
    key, value = annotation.get("key", ""), annotation.get("valueExpression", "")
    if name:
        errors = [invalid(path / "key", f"{name}/{key}", text) for text in label_key(f"{name}/{key}")]
    else:
        errors = [invalid(path / "key", key, "requires metadata.name be non-empty")]
    at, expression = path / "valueExpression", value.strip()
    if not expression:
        return [*errors, required(at, "valueExpression is not specified")]
    if len(expression.encode()) > _LONGEST_ANNOTATION:
        return [*errors, required(at, f"must not exceed {_LONGEST_ANNOTATION} bytes in length")]
    return errors + compiler.errors(at, expression, ANNOTATION_RESULT, stored=value in stored, shown=value)


def mutating_errors(release: Release, obj: Json, old: Json | None) -> list[FieldError]:
    """Validate the variables and mutations of a MutatingAdmissionPolicy."""
    spec, before = obj["spec"], {} if old is None else old["spec"]
    compiler = _Compiler(release, params=spec.get("paramKind") is not None, variables=True)
    errors = _variables(compiler, spec, _texts(before.get("variables"), "expression"))
    stored = {
        (item.get(field) or {}).get("expression", "")
        for item in before.get("mutations") or ()
        for field in ("applyConfiguration", "jsonPatch")
    }
    path, mutations = _SPEC / "mutations", spec.get("mutations") or []
    if not mutations:
        errors.append(required(path, "mutations must contain at least one item"))
    for index, mutation in enumerate(mutations):
        errors += _mutation_errors(compiler, path[index], mutation, stored)
    return errors + choice(_SPEC / "reinvocationPolicy", spec.get("reinvocationPolicy") or None, REINVOCATION_POLICIES)


def _mutation_errors(compiler: _Compiler, path: Path, mutation: Json, stored: set[str]) -> list[FieldError]:
    kind = mutation.get("patchType", "")
    if kind not in _PATCH_TYPES:
        return choice(path / "patchType", kind or None, _PATCH_TYPES)
    field, other, result = "applyConfiguration", "jsonPatch", APPLY_RESULT
    if kind == "JSONPatch":
        field, other, result = other, field, PATCH_RESULT
    at, errors = path / field, []
    given = mutation.get(field)
    if given is None:
        errors.append(required(at, f"must be specified when patchType is {kind}"))
    elif not (expression := given.get("expression", "").strip()):
        errors.append(required(at / "expression"))
    else:
        known = given["expression"] in stored
        errors += compiler.errors(at / "expression", expression, result, stored=known, patches=True)
    if mutation.get(other) is not None:
        errors.append(invalid(path / other, f"{{{other}}}", f"must not be specified when patchType is {kind}"))
    return errors
