"""The authorizer in expressions: `authorizer.group('apps').resource('deployments').check('create').allowed()`.

The authority and the user come with the variable. The authority is called only by a check. Facts: apiserver,
pkg/cel/library/authz.go.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from apiserver.cel.language.declarations import Function, function, method
from apiserver.cel.language.types import BOOL, STRING, struct
from apiserver.cel.language.values import CelError, LibraryValue

__all__ = ["AUTHORIZER", "RESOURCE_CHECK", "Authority", "Authorizer", "ResourceCheck", "library", "selectors"]

AUTHORIZER: Final = struct("kubernetes.authorization.Authorizer")
_PATH_CHECK: Final = struct("kubernetes.authorization.PathCheck")
_GROUP_CHECK: Final = struct("kubernetes.authorization.GroupCheck")
RESOURCE_CHECK: Final = struct("kubernetes.authorization.ResourceCheck")
_DECISION: Final = struct("kubernetes.authorization.Decision")


class Authority(Protocol):
    """Decides about users; `user` is of any type the authority uses. Checks return (allowed, reason)."""

    def check(self, user: Any, verb: str, asked: ResourceCheck) -> tuple[bool, str]: ...

    def check_path(self, user: Any, verb: str, path: str) -> tuple[bool, str]: ...

    def service_account(self, namespace: str, name: str) -> Any:
        """Return the user of a service account."""
        ...


@dataclass(frozen=True, slots=True)
class Authorizer(LibraryValue):
    """The permissions of a user."""

    authority: Authority
    user: Any
    type_name = AUTHORIZER.name


@dataclass(frozen=True, slots=True)
class PathCheck(LibraryValue):
    """The permissions of a user for a non-resource path."""

    authorizer: Authorizer
    path: str
    type_name = _PATH_CHECK.name


@dataclass(frozen=True, slots=True)
class GroupCheck(LibraryValue):
    """The permissions of a user in an API group."""

    authorizer: Authorizer
    group: str
    type_name = _GROUP_CHECK.name


@dataclass(frozen=True, slots=True)
class ResourceCheck(LibraryValue):
    """The permissions of a user for a resource. Selectors are unparsed texts."""

    authorizer: Authorizer
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""
    type_name = RESOURCE_CHECK.name


@dataclass(frozen=True, slots=True)
class Decision(LibraryValue):
    """The result of a check."""

    allowed: bool
    reason: str
    type_name = _DECISION.name


def _path(authorizer: Authorizer, path: str) -> PathCheck:
    if not path.strip():
        raise CelError("path must not be empty")
    return PathCheck(authorizer, path)


def _service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    from apiserver.api.values.names import object_name

    if object_name("subdomain", name, False):
        raise CelError("Invalid service account name")
    if object_name("label", namespace, False):
        raise CelError("Invalid service account namespace")
    return replace(authorizer, user=authorizer.authority.service_account(namespace, name))


def _resource(group: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise CelError("resource must not be empty")
    return ResourceCheck(group.authorizer, group.group, resource)


def _check_path(check: PathCheck, verb: str) -> Decision:
    return Decision(*check.authorizer.authority.check_path(check.authorizer.user, verb, check.path))


def _check(check: ResourceCheck, verb: str) -> Decision:
    return Decision(*check.authorizer.authority.check(check.authorizer.user, verb, check))


def _narrowing_method(name: str, id: str, field: str) -> Function:
    def narrow(check: ResourceCheck, value: str) -> ResourceCheck:
        changed: dict[str, Any] = {field: value}
        return replace(check, **changed)

    return function(name, method(id, (RESOURCE_CHECK, STRING), RESOURCE_CHECK, narrow))


def library() -> list[Function]:
    """Return the declarations of checks of paths and resources, and of their decisions."""
    return [
        function("path", method("authorizer_path", (AUTHORIZER, STRING), _PATH_CHECK, _path)),
        function("group", method("authorizer_group", (AUTHORIZER, STRING), _GROUP_CHECK, GroupCheck)),
        function(
            "serviceAccount",
            method("authorizer_serviceaccount", (AUTHORIZER, STRING, STRING), AUTHORIZER, _service_account),
        ),
        function("resource", method("groupcheck_resource", (_GROUP_CHECK, STRING), RESOURCE_CHECK, _resource)),
        _narrowing_method("subresource", "resourcecheck_subresource", "subresource"),
        _narrowing_method("namespace", "resourcecheck_namespace", "namespace"),
        _narrowing_method("name", "resourcecheck_name", "name"),
        function(
            "check",
            method("pathcheck_check", (_PATH_CHECK, STRING), _DECISION, _check_path),
            method("resourcecheck_check", (RESOURCE_CHECK, STRING), _DECISION, _check),
        ),
        function("errored", method("decision_errored", (_DECISION,), BOOL, lambda _decision: False)),
        function("error", method("decision_error", (_DECISION,), STRING, lambda _decision: "")),
        function("allowed", method("decision_allowed", (_DECISION,), BOOL, lambda decision: decision.allowed)),
        function("reason", method("decision_reason", (_DECISION,), STRING, lambda decision: decision.reason)),
    ]


def selectors() -> list[Function]:
    """Return the declarations of checks of lists with selectors."""
    return [
        _narrowing_method("fieldSelector", "authorizer_fieldselector", "field_selector"),
        _narrowing_method("labelSelector", "authorizer_labelselector", "label_selector"),
    ]
