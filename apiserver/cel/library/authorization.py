"""The authorizer as expressions see it: `authorizer.group('apps').resource('deployments').check('create').allowed()`.

Who is asked and about whom comes with the variable; a check that is never asked costs nobody anything. Facts:
apiserver, pkg/cel/library/authz.go.
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
    """Who decides. A `user` is whatever the authority knows users by. Answers are whether it is allowed, and why."""

    def check(self, user: Any, verb: str, asked: ResourceCheck) -> tuple[bool, str]: ...

    def check_path(self, user: Any, verb: str, path: str) -> tuple[bool, str]: ...

    def service_account(self, namespace: str, name: str) -> Any:
        """The user that a service account is."""
        ...


@dataclass(frozen=True, slots=True)
class Authorizer(LibraryValue):
    """What a user may do."""

    authority: Authority
    user: Any
    type_name = AUTHORIZER.name


@dataclass(frozen=True, slots=True)
class PathCheck(LibraryValue):
    """What a user may do with a path that is no resource."""

    authorizer: Authorizer
    path: str
    type_name = _PATH_CHECK.name


@dataclass(frozen=True, slots=True)
class GroupCheck(LibraryValue):
    """What a user may do in an API group."""

    authorizer: Authorizer
    group: str
    type_name = _GROUP_CHECK.name


@dataclass(frozen=True, slots=True)
class ResourceCheck(LibraryValue):
    """What a user may do with a resource; selectors are texts as they were given."""

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
    """The answer."""

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


def _narrowed(name: str, id: str, field: str) -> Function:
    def narrow(check: ResourceCheck, value: str) -> ResourceCheck:
        changed: dict[str, Any] = {field: value}
        return replace(check, **changed)

    return function(name, method(id, (RESOURCE_CHECK, STRING), RESOURCE_CHECK, narrow))


def library() -> list[Function]:
    """Checks of paths and resources, and what they answer."""
    return [
        function("path", method("authorizer_path", (AUTHORIZER, STRING), _PATH_CHECK, _path)),
        function("group", method("authorizer_group", (AUTHORIZER, STRING), _GROUP_CHECK, GroupCheck)),
        function(
            "serviceAccount",
            method("authorizer_serviceaccount", (AUTHORIZER, STRING, STRING), AUTHORIZER, _service_account),
        ),
        function("resource", method("groupcheck_resource", (_GROUP_CHECK, STRING), RESOURCE_CHECK, _resource)),
        _narrowed("subresource", "resourcecheck_subresource", "subresource"),
        _narrowed("namespace", "resourcecheck_namespace", "namespace"),
        _narrowed("name", "resourcecheck_name", "name"),
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
    """Checks of lists that select some objects."""
    return [
        _narrowed("fieldSelector", "authorizer_fieldselector", "field_selector"),
        _narrowed("labelSelector", "authorizer_labelselector", "label_selector"),
    ]
