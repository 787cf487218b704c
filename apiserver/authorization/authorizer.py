"""The authorizers of --authorization-mode, asked in order: the first that allows decides, and the reasons of the others
become the refusal's.

Members of system:masters may do everything in every mode. ABAC and Webhook are accepted and allow nothing
(docs/fidelity.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from apiserver.registry.authority import Decision, Question, Rules

if TYPE_CHECKING:
    from apiserver.api.features import Features
    from apiserver.authorization.roles import RoleIndex
    from apiserver.messages import User
    from apiserver.registry.store import Store

__all__ = ["MODES", "UNBUILT", "Authorizer"]

Json = dict[str, Any]

MODES: Final = ("AlwaysAllow", "AlwaysDeny", "ABAC", "Webhook", "RBAC", "Node")
#: Modes that are accepted and allow nothing.
UNBUILT: Final = ("ABAC", "Webhook")
MASTERS: Final = "system:masters"
_ALL: Final[list[Json]] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]


class _Member(Protocol):
    """The authorizer of one mode. Returns (allowed, reason); the reason is that of a refusal."""

    def opinion(self, user: User, question: Question) -> tuple[bool, str]: ...

    def path_opinion(self, user: User, verb: str, path: str) -> tuple[bool, str]: ...


class _Always:
    """AlwaysAllow and AlwaysDeny."""

    def __init__(self, *, allow: bool) -> None:
        self._answer = (True, "") if allow else (False, "Everything is forbidden.")

    def opinion(self, user: User, question: Question) -> tuple[bool, str]:
        return self._answer

    def path_opinion(self, user: User, verb: str, path: str) -> tuple[bool, str]:
        return self._answer


class _Roles:
    """RBAC."""

    def __init__(self, index: RoleIndex) -> None:
        self._index = index

    def opinion(self, user: User, question: Question) -> tuple[bool, str]:
        rights = self._index.rights(user, question.namespace)
        if rights.find(question) is not None:
            return True, ""
        return False, _missing(rights.missing) if rights.missing else ""

    def path_opinion(self, user: User, verb: str, path: str) -> tuple[bool, str]:
        rights = self._index.rights(user, "")
        if rights.find_path(verb, path) is not None:
            return True, ""
        return False, _missing(rights.missing) if rights.missing else ""

    def reason(self, user: User, question: Question) -> str:
        grant = self._index.rights(user, question.namespace).find(question)
        return "" if grant is None else grant.reason(user)

    def path_reason(self, user: User, verb: str, path: str) -> str:
        grant = self._index.rights(user, "").find_path(verb, path)
        return "" if grant is None else grant.reason(user)


def _missing(grants: Sequence[Any]) -> str:
    """The reason of a refusal that names bound roles which do not exist."""
    texts = list(
        dict.fromkeys(
            f'{grant.role_kind.lower()}.rbac.authorization.k8s.io "{grant.role}" not found' for grant in grants
        )
    )
    return f"RBAC: {texts[0]}" if len(texts) == 1 else f"RBAC: [{', '.join(texts)}]"


class Authorizer:
    """Answers for one list of modes. `use` gives it the stores that Node and RBAC read; before that they allow
    nothing.
    """

    def __init__(self, modes: Sequence[str] = ("AlwaysAllow",)) -> None:
        self.modes = tuple(modes)
        self.allows_all = modes[0] == "AlwaysAllow"
        self._members: tuple[_Member, ...] = ()
        self._index: RoleIndex | None = None
        self._stores: Mapping[tuple[str, str], Store] = {}
        if all(mode.startswith("Always") for mode in self.modes):
            self._members = tuple(_Always(allow=mode == "AlwaysAllow") for mode in self.modes)

    def use(self, stores: Mapping[tuple[str, str], Store], features: Features) -> None:
        """Reads roles, bindings and pods from the registry's stores from now on."""
        self._stores = stores
        self._members = tuple(member for mode in self.modes if (member := self._make(mode, features)) is not None)

    def _make(self, mode: str, features: Features) -> _Member | None:
        if mode == "RBAC":
            return _Roles(self._roles)
        if mode == "Node":
            from apiserver.authorization.nodes import NodeAuthorizer
            from apiserver.authorization.policy import node_rules

            return NodeAuthorizer(self._stores, features, node_rules(features))
        return None if mode in UNBUILT else _Always(allow=mode == "AlwaysAllow")

    @property
    def _roles(self) -> RoleIndex:
        if self._index is None:
            from apiserver.authorization.roles import RoleIndex

            self._index = RoleIndex(self._stores)
        return self._index

    def allows(
        self,
        user: User,
        verb: str,
        group: str,
        resource: str,
        subresource: str = "",
        namespace: str = "",
        name: str = "",
        selector: str = "",
    ) -> bool:
        """Whether a user may do something with a resource."""
        if self.allows_all or MASTERS in user.groups:
            return True
        question = Question(verb, group, resource, subresource, namespace, name, selector)
        return any(member.opinion(user, question)[0] for member in self._members)

    def allows_path(self, user: User, verb: str, path: str) -> bool:
        """Whether a user may do something (an HTTP method in lower case) with a path that names no resource."""
        return self.decide_path(user, verb, path).allowed

    def allows_everything(self, user: User) -> bool:
        return self.allows(user, "*", "*", "*")

    def decide(self, user: User, question: Question) -> Decision:
        if self.allows_all or MASTERS in user.groups:
            return Decision(True)
        reasons = []
        for member in self._members:
            allowed, reason = member.opinion(user, question)
            if allowed:
                return Decision(True, member.reason(user, question) if isinstance(member, _Roles) else reason)
            if reason:
                reasons.append(reason)
        return Decision(False, "\n".join(reasons))

    def decide_path(self, user: User, verb: str, path: str) -> Decision:
        if self.allows_all or MASTERS in user.groups:
            return Decision(True)
        reasons = []
        for member in self._members:
            allowed, reason = member.path_opinion(user, verb, path)
            if allowed:
                return Decision(True, member.path_reason(user, verb, path) if isinstance(member, _Roles) else reason)
            if reason:
                reasons.append(reason)
        return Decision(False, "\n".join(reasons))

    def rules_for(self, user: User, namespace: str) -> Rules:
        """The rules that apply to a user, as far as the modes can list them."""
        rules: list[Json] = []
        errors: list[str] = []
        incomplete = False
        for mode in self.modes:
            if mode == "AlwaysAllow":
                rules += _ALL
            elif mode == "RBAC":
                rights = self._roles.rights(user, namespace)
                rules += [rule for rule, _ in rights.rules]
                if rights.missing:
                    errors.append(_missing(rights.missing).removeprefix("RBAC: "))
            elif mode == "Node" and user.name.startswith("system:node:") and "system:nodes" in user.groups:
                incomplete = True
                errors.append("node authorizer does not support user rule resolution")
        return Rules(rules, incomplete, errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]" if errors else "")

    def held_rules(self, user: User, namespace: str) -> tuple[list[Json], list[str]]:
        rights = self._roles.rights(user, namespace)
        return [rule for rule, _ in rights.rules], [grant.role for grant in rights.missing]

    def role_rules(self, kind: str, namespace: str, name: str) -> list[Json] | None:
        return self._roles.role(kind, namespace, name)
