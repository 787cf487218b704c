"""Expressions about admission requests: match conditions, policies and their variables.

    language = admission_language((1, 36), Declared(params=True), stored=True)
    program = compile_admission("object.metadata.name != 'x'", language, BOOL_RESULT)

`object`, `oldObject` and `params` are of any type; the request, its namespace and the authorizer are typed. Facts:
apiserver, pkg/admission/plugin/cel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

from apiserver.cel.engine import Compiled, Language, build_language, compile_expression
from apiserver.cel.environments.devices import NEWEST
from apiserver.cel.language.messages import JSON_PATCH, OBJECT, patch_messages, well_known
from apiserver.cel.language.types import BOOL, DYN, INT, STRING, TIMESTAMP, Type, list_of, map_of, struct
from apiserver.cel.library import jsonpatch
from apiserver.cel.library.authorization import AUTHORIZER, RESOURCE_CHECK

__all__ = [
    "ANNOTATION_RESULT",
    "ANY_RESULT",
    "APPLY_RESULT",
    "BOOL_RESULT",
    "CALL_LIMIT",
    "PATCH_RESULT",
    "STRING_RESULT",
    "VARIABLES",
    "Declared",
    "Result",
    "admission_language",
    "compile_admission",
    "variable_type",
    "with_types",
    "with_variable",
]

#: The cost at which one expression is aborted.
CALL_LIMIT: Final = 1_000_000

_KIND: Final = dict.fromkeys(("group", "version", "kind"), STRING)
_RESOURCE: Final = dict.fromkeys(("group", "version", "resource"), STRING)
_TEXTS: Final = list_of(STRING)
_LABELS: Final = map_of(STRING, STRING)
VARIABLES: Final = "kubernetes.variables"
_STRUCTS: Final[Mapping[str, Mapping[str, Type]]] = {
    "kubernetes.GroupVersionKind": _KIND,
    "kubernetes.GroupVersionResource": _RESOURCE,
    "kubernetes.UserInfo": {
        "username": STRING, "uid": STRING, "groups": _TEXTS, "extra": map_of(STRING, _TEXTS),
    },
    "kubernetes.AdmissionRequest": {
        "kind": struct("kubernetes.GroupVersionKind"),
        "resource": struct("kubernetes.GroupVersionResource"),
        "subResource": STRING,
        "requestKind": struct("kubernetes.GroupVersionKind"),
        "requestResource": struct("kubernetes.GroupVersionResource"),
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": struct("kubernetes.UserInfo"),
        "dryRun": BOOL,
        "options": DYN,
    },
    "kubernetes.NamespaceSpec": {"finalizers": _TEXTS},
    "kubernetes.NamespaceCondition": {
        "status": STRING, "type": STRING, "lastTransitionTime": TIMESTAMP, "message": STRING, "reason": STRING,
    },
    "kubernetes.NamespaceStatus": {
        "conditions": list_of(struct("kubernetes.NamespaceCondition")), "phase": STRING,
    },
    "kubernetes.NamespaceMetadata": {
        "name": STRING, "generateName": STRING, "namespace": STRING, "labels": _LABELS, "annotations": _LABELS,
        "UID": STRING, "creationTimestamp": TIMESTAMP, "deletionGracePeriodSeconds": INT,
        "deletionTimestamp": TIMESTAMP, "generation": INT, "resourceVersion": STRING, "finalizers": _TEXTS,
    },
    "kubernetes.Namespace": {
        "metadata": struct("kubernetes.NamespaceMetadata"),
        "spec": struct("kubernetes.NamespaceSpec"),
        "status": struct("kubernetes.NamespaceStatus"),
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Declared:
    """Variables in addition to object, oldObject, request and namespaceObject.

    `patches`: values of Object and JSONPatch can be constructed.
    """

    params: bool = False
    authorizer: bool = True
    patches: bool = False
    variables: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """All variables, in the order of their values."""
        return tuple(_variables(self))


def _variables(declared: Declared) -> dict[str, Type]:
    types = {
        "object": DYN,
        "oldObject": DYN,
        "namespaceObject": struct("kubernetes.Namespace"),
        "request": struct("kubernetes.AdmissionRequest"),
    }
    if declared.params:
        types["params"] = DYN
    if declared.authorizer:
        types |= {"authorizer": AUTHORIZER, "authorizer.requestResource": RESOURCE_CHECK}
    if declared.variables:
        types["variables"] = struct(VARIABLES)
    return types


@lru_cache(maxsize=64)
def admission_language(release: tuple[int, int], declared: Declared, *, stored: bool) -> Language:
    """Return the language of a server's release.

    `stored` is for expressions that are stored already, and for evaluation. New ones must be understood by the previous
    release.
    """
    libraries = NEWEST if stored else (release[0], release[1] - 1)
    structs = {**_STRUCTS, VARIABLES: {}} if declared.variables else _STRUCTS
    extra = jsonpatch.library() if declared.patches else []
    messages = patch_messages if declared.patches else well_known
    return build_language(libraries, _variables(declared), structs, {}, extra, messages)


def with_variable(language: Language, name: str, type_: Type | None) -> Language:
    """Return the language extended by `variables.name`; `type_` is None for a variable that does not compile."""
    scope = language.scope
    known = {**scope.structs[VARIABLES], name: DYN if type_ is None else variable_type(type_)}
    return replace(language, scope=replace(scope, structs={**scope.structs, VARIABLES: known}))


def with_types(language: Language, types: Mapping[str, Type], structs: Mapping[str, Mapping[str, Type]]) -> Language:
    """Return the language in which some variables have these types, with the fields of `structs`."""
    scope = language.scope
    variables = {name: types.get(name, type_) for name, type_ in scope.variables.items()}
    return replace(language, scope=replace(scope, variables=variables, structs={**scope.structs, **structs}))


_PLAIN: Final = frozenset({"any", "bool", "bytes", "double", "duration", "int", "null", "string", "timestamp", "uint"})


def variable_type(type_: Type) -> Type:
    """Return the type of a variable: its expression's type as far as it consists of plain types, lists and maps."""
    if type_.kind in _PLAIN:
        return type_
    if type_.kind == "list":
        return list_of(variable_type(type_.params[0]))
    if type_.kind == "map":
        return map_of(variable_type(type_.params[0]), variable_type(type_.params[1]))
    return DYN


class Result(NamedTuple):
    """Accepted result types, None for any, and their name in messages."""

    types: frozenset[str] | None
    text: str


class _Any(frozenset[str]):
    def __contains__(self, item: object) -> bool:
        return True


_EVERYTHING: Final = _Any()
BOOL_RESULT: Final = Result(frozenset({"bool"}), "bool")
STRING_RESULT: Final = Result(frozenset({"string"}), "string")
ANNOTATION_RESULT: Final = Result(frozenset({"string", "null"}), "one of [string null_type]")
ANY_RESULT: Final = Result(None, "")
APPLY_RESULT: Final = Result(frozenset({OBJECT.name}), OBJECT.name)
PATCH_RESULT: Final = Result(frozenset({str(list_of(JSON_PATCH))}), str(list_of(JSON_PATCH)))


def compile_admission(source: str, language: Language, result: Result) -> Compiled:
    """Compile an expression, or raise CompileFailure."""
    accepted = _EVERYTHING if result.types is None else result.types
    return compile_expression(source, language, accepted, result.text, CALL_LIMIT, " but got")
