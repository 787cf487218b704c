"""Which FlowSchema a request belongs to. Schemas are asked in the order of their precedence, and what was found is
kept: of two requests that a rule could not tell apart only the first is compared with the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from apiserver.http.fairness.levels import Level
from apiserver.messages import Request, User

__all__ = ["Flow", "Flows"]

Json = Mapping[str, Any]

_ALL: Final = "*"
_ACCOUNT: Final = "system:serviceaccount:"
#: Users, and kinds of requests of one user, that are kept.
_KEPT: Final = 1000


class Flow:
    """The requests that one schema assigns to a level. `marks` are the header fields of their answers; `dispatched` and
    `executing` count them.
    """

    __slots__ = ("dispatched", "distinguish", "executing", "level", "marks", "name")

    def __init__(self, schema: Json, level: Level) -> None:
        metadata: Json = schema["metadata"]
        self.name: str = metadata["name"]
        self.level = level
        #: What tells the flows of the schema apart: "", ByUser or ByNamespace.
        self.distinguish: str = (schema["spec"].get("distinguisherMethod") or {}).get("type", "")
        # The names could tell a client more of the configuration than it may know: answers have uids.
        self.marks = (
            f"x-kubernetes-pf-flowschema-uid: {metadata['uid']}\r\nx-kubernetes-pf-prioritylevel-uid: {level.uid}\r\n"
        ).encode()
        self.dispatched = self.executing = 0

    def key(self, request: Request) -> tuple[str, str]:
        """Requests of one key wait in the same queues."""
        if self.distinguish == "ByUser":
            return self.name, request.user.name if request.user is not None else ""
        return self.name, request.info.namespace if self.distinguish == "ByNamespace" else ""


class _OfUser:
    """What is known of one user: the rules that count, in their order, and what was found by them."""

    __slots__ = ("always", "found", "rules")

    def __init__(self, user: User, schemas: Sequence[tuple[Json, Flow]]) -> None:
        self.rules = [
            (rule, flow)
            for spec, flow in schemas
            for rule in spec.get("rules") or ()
            if any(_is_subject(user, subject) for subject in rule.get("subjects") or ())
        ]
        #: The flow of all requests of the user, where nothing else can be.
        self.always = self.rules[0][1] if self.rules and _covers_all(self.rules[0][0]) else None
        self.found: dict[tuple[str, ...], Flow | None] = {}


class Flows:
    """`schemas` with the flow of each, those of the lowest precedence first. `last` is for what none of them covers."""

    def __init__(self, schemas: Sequence[tuple[Json, Flow]] = (), last: Flow | None = None) -> None:
        self._schemas, self._last = schemas, last
        self._users: dict[tuple[str, tuple[str, ...]], _OfUser] = {}
        self._user: User | None = None
        self._known: _OfUser | None = None
        self.all = [flow for _, flow in schemas]

    def of(self, request: Request) -> Flow | None:
        """None where there are no schemas."""
        user = request.user
        assert user is not None, "authentication stands before"
        known = self._known if user is self._user else self._of_user(user)
        assert known is not None, "it is set with the user"
        return known.always or self._among(known, request)

    def _of_user(self, user: User) -> _OfUser:
        key = user.name, user.groups
        known = self._users.get(key)
        if known is None:
            if len(self._users) >= _KEPT:
                self._users.clear()
            known = self._users[key] = _OfUser(user, self._schemas)
        self._user, self._known = user, known
        return known

    def _among(self, known: _OfUser, request: Request) -> Flow | None:
        info = request.info
        if info.resource:
            key: tuple[str, ...] = (info.verb, info.group, info.resource, info.subresource, info.namespace)
        else:
            key = (info.verb, request.path)
        if key in known.found:
            return known.found[key]
        if len(known.found) >= _KEPT:
            known.found.clear()
        covers = _covers_resource if info.resource else _covers_path
        flow = next((flow for rule, flow in known.rules if covers(rule, *key)), self._last)
        known.found[key] = flow
        return flow


def _is_subject(user: User, subject: Json) -> bool:
    kind = subject.get("kind")
    if kind == "User":
        return (subject.get("user") or {}).get("name") in (_ALL, user.name)
    if kind == "Group":
        name = (subject.get("group") or {}).get("name")
        return name == _ALL or name in user.groups
    if kind != "ServiceAccount" or not user.name.startswith(_ACCOUNT):
        return False
    account = subject.get("serviceAccount") or {}
    namespace, _, name = user.name.removeprefix(_ACCOUNT).partition(":")
    return account.get("namespace") == namespace and account.get("name") in (_ALL, name)


def _has(listed: Sequence[str], wanted: str) -> bool:
    """Whether it is among them. A `*` that is not alone stands for itself."""
    return wanted in listed or (len(listed) == 1 and listed[0] == _ALL)


def _covers_resource(rule: Json, verb: str, group: str, resource: str, subresource: str, namespace: str) -> bool:
    what = f"{resource}/{subresource}" if subresource else resource
    return any(
        _has(each.get("verbs", ()), verb)
        and _has(each.get("resources", ()), what)
        and _has(each.get("apiGroups", ()), group)
        and (_has(each.get("namespaces", ()), namespace) if namespace else bool(each.get("clusterScope")))
        for each in rule.get("resourceRules") or ()
    )


def _covers_path(rule: Json, verb: str, path: str) -> bool:
    return any(
        _has(each.get("verbs", ()), verb) and any(_is_path(url, path) for url in each.get("nonResourceURLs") or ())
        for each in rule.get("nonResourceRules") or ()
    )


def _is_path(url: str, path: str) -> bool:
    return url in (_ALL, path) or path.startswith(url.removesuffix(_ALL).removesuffix("/") + "/")


def _covers_all(rule: Json) -> bool:
    everywhere = any(
        each.get("clusterScope") and all(each.get(part) == [_ALL] for part in _PARTS)
        for each in rule.get("resourceRules") or ()
    )
    return everywhere and any(
        each.get("verbs") == [_ALL] and _ALL in (each.get("nonResourceURLs") or ())
        for each in rule.get("nonResourceRules") or ()
    )


_PARTS: Final = ("verbs", "apiGroups", "resources", "namespaces")
