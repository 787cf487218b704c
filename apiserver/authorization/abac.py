"""Authorization by a policy file (--authorization-policy-file) with one JSON object per line.

Facts: pkg/auth/authorizer/abac, pkg/apis/abac (lines without apiVersion).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from apiserver.api.codec.codec import DecodeError, decode, interpret, loads
from apiserver.api.objects import Json
from apiserver.api.schema.language import BOOL, STRING, Struct, field
from apiserver.authorization.rules import url_matches
from apiserver.registry.definition.authority import Opinion, Question

if TYPE_CHECKING:
    from apiserver.request.messages import User

__all__ = ["Policies", "Policy", "PolicyFileError", "read_policies"]


_READS: Final = ("get", "list", "watch")
_NONE: Final[Opinion] = (None, "No policy matched.")
_FIELDS: Final = (
    field("user", 1, STRING, doc="Whom the policy is about; * is everybody."),
    field("group", 2, STRING, doc="A group of users that it is about; * is any."),
    field("readonly", 3, BOOL, doc="Whether it allows to read alone."),
    field("apiGroup", 4, STRING, doc="The group of resources; * is any."),
    field("resource", 5, STRING, doc="The resource; * is any."),
    field("namespace", 6, STRING, doc="The namespace; * is any."),
    field("nonResourcePath", 7, STRING, doc="A path that names no resource, which may end in *."),
)
_SPEC: Final = Struct("io.k8s.abac.PolicySpec", lambda: _FIELDS, doc="PolicySpec grants actions to a user or group.")
_POLICY: Final = Struct(
    "io.k8s.abac.Policy", lambda: (field("spec", 1, _SPEC, doc="What is allowed."),), doc="Policy allows something."
)
_VERSION: Final = "abac.authorization.kubernetes.io/v1beta1"


class PolicyFileError(ValueError):
    """Error in a policy file, in one line."""


class Policy(NamedTuple):
    """One line of a policy file: a subject and its rights."""

    user: str = ""
    group: str = ""
    readonly: bool = False
    api_group: str = ""
    resource: str = ""
    namespace: str = ""
    path: str = ""

    def is_about(self, user: User) -> bool:
        if self.user and self.user not in ("*", user.name):
            return False
        if self.group and self.group != "*" and self.group not in user.groups:
            return False
        return bool(self.user or self.group)

    def allows(self, question: Question) -> bool:
        return (
            self.namespace in ("*", question.namespace)
            and self.resource in ("*", question.resource)
            and self.api_group in ("*", question.group)
        )

    @property
    def verbs(self) -> list[str]:
        return list(_READS) if self.readonly else ["*"]


class Policies:
    """The ABAC authorizer."""

    def __init__(self, policies: Iterable[Policy]) -> None:
        self._policies = tuple(policies)

    def opinion(self, user: User, question: Question) -> Opinion:
        reads = question.verb in _READS
        for policy in self._policies:
            if (reads or not policy.readonly) and policy.is_about(user) and policy.allows(question):
                return True, ""
        return _NONE

    def path_opinion(self, user: User, verb: str, path: str) -> Opinion:
        reads = verb in _READS
        for policy in self._policies:
            if (reads or not policy.readonly) and policy.is_about(user) and _fits(policy.path, path):
                return True, ""
        return _NONE

    def rules(self, user: User, namespace: str) -> list[Json]:
        """Return a user's rights in a namespace as rules."""
        found: list[Json] = []
        for policy in self._policies:
            if not policy.is_about(user) or policy.namespace not in ("*", namespace):
                continue
            if policy.resource:
                found.append({"verbs": policy.verbs, "apiGroups": [policy.api_group], "resources": [policy.resource]})
            if policy.path:
                found.append({"verbs": policy.verbs, "nonResourceURLs": [policy.path]})
        return found


def _fits(pattern: str, path: str) -> bool:
    return bool(pattern) and url_matches(pattern, path)


def read_policies(path: Path) -> Policies:
    """Read a policy file. Raise PolicyFileError."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        raise PolicyFileError(f"open {path}: {reason}") from error
    found = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            found.append(_policy(text))
        except DecodeError as error:
            raise PolicyFileError(f"error reading policy file {path}, line {number}: {line}: {error}") from error
    return Policies(found)


def _policy(text: str) -> Policy:
    """Parse one policy. Raise DecodeError."""
    body = loads(text.encode())
    version, kind = interpret(body)
    if (version, kind) == (_VERSION, "Policy"):
        return _build_policy(decode(_POLICY, body.value).obj.get("spec") or {})
    return _convert_v0(_build_policy(decode(_SPEC, body.value).obj))


def _build_policy(spec: Json) -> Policy:
    return Policy(
        spec.get("user", ""), spec.get("group", ""), spec.get("readonly", False), spec.get("apiGroup", ""),
        spec.get("resource", ""), spec.get("namespace", ""), spec.get("nonResourcePath", ""),
    )  # fmt: skip


def _convert_v0(policy: Policy) -> Policy:
    """Convert a policy without apiVersion: unset fields match everything, and "*" means every authenticated user."""
    everybody = not (policy.user or policy.group) or "*" in (policy.user, policy.group)
    return Policy(
        "" if everybody else policy.user,
        "system:authenticated" if everybody else policy.group,
        policy.readonly,
        "*",
        policy.resource or "*",
        policy.namespace or "*",
        "" if policy.namespace or policy.resource else "*",
    )
