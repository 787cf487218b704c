"""Role-based access control: the index from subjects to their rights.

The index follows the watch caches of the four kinds, so an event updates only its own object. The rights of a user in a
namespace are computed at their first use and cached until the next event. A decision then tests only the rules for its
resource.

Facts: plugin/pkg/auth/authorizer/rbac, pkg/registry/rbac/validation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from apiserver.api.objects import Json
from apiserver.authorization.rules import url_matches
from apiserver.registry.definition.authority import Question
from apiserver.storage.log.types import Expired

if TYPE_CHECKING:
    from apiserver.registry.store.store import Store
    from apiserver.request.messages import User
    from apiserver.storage.watchcache.cache import Cursor, Entry

__all__ = ["Grant", "RoleIndex"]


GROUP: Final = "rbac.authorization.k8s.io"
_ACCOUNT: Final = "system:serviceaccount:"
#: Limits of the cache: users' rights, and resources per user.
_MOST_USERS: Final = 4096
_MOST_RESOURCES: Final = 1024


class Grant(NamedTuple):
    """A binding from a role to subjects, in a namespace or ("") cluster-wide."""

    kind: str
    namespace: str
    name: str
    role_kind: str
    role: str
    subjects: tuple[Json, ...]

    def reason(self, user: User) -> str:
        """Return the reason why the binding allows a request."""
        subject = next(subject for subject in self.subjects if _matches(subject, self.namespace, user))
        shown = f"{self.name}/{self.namespace}" if self.namespace else self.name
        return (
            f'RBAC: allowed by {self.kind} "{shown}" of {self.role_kind} "{self.role}" to'
            f" {_describe_subject(subject, self.namespace)}"
        )


def _describe_subject(subject: Json, namespace: str) -> str:
    name = subject.get("name", "")
    if subject.get("kind") == "ServiceAccount":
        name += "/" + (subject.get("namespace") or namespace)
    return f'{subject.get("kind", "")} "{name}"'


def _key(subject: Json, namespace: str) -> tuple[str, str] | None:
    """Return the index key of a subject: ("user", name), ("group", name), or None if no user can match."""
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind == "User":
        return "user", name
    if kind == "Group":
        return "group", name
    account_namespace = subject.get("namespace") or namespace
    if kind == "ServiceAccount" and account_namespace:
        return "user", f"{_ACCOUNT}{account_namespace}:{name}"
    return None


def _matches(subject: Json, namespace: str, user: User) -> bool:
    key = _key(subject, namespace)
    return key is not None and (key == ("user", user.name) or (key[0] == "group" and key[1] in user.groups))


class _Right(NamedTuple):
    """One rule restricted to a resource. None matches everything."""

    verbs: frozenset[str] | None
    names: frozenset[str] | None
    grant: Grant


class Rights:
    """The rights of a user in a namespace.

    `missing` are the missing roles (`kind`, namespace, name) of bindings.
    """

    __slots__ = ("_of", "missing", "rules")

    def __init__(self, rules: list[tuple[Json, Grant]], missing: list[Grant]) -> None:
        self.rules, self.missing = rules, missing
        self._of: dict[tuple[str, str, str], tuple[_Right, ...]] = {}

    def of(self, group: str, resource: str, subresource: str) -> tuple[_Right, ...]:
        key = (group, resource, subresource)
        found = self._of.get(key)
        if found is None:
            if len(self._of) >= _MOST_RESOURCES:
                self._of.clear()
            found = self._of[key] = tuple(self._select(group, resource, subresource))
        return found

    def _select(self, group: str, resource: str, subresource: str) -> Iterator[_Right]:
        wanted = {"*", f"{resource}/{subresource}", f"*/{subresource}"} if subresource else {"*", resource}
        for rule, grant in self.rules:
            groups = rule.get("apiGroups") or ()
            if (group in groups or "*" in groups) and not wanted.isdisjoint(rule.get("resources") or ()):
                names = rule.get("resourceNames")
                yield _Right(_all_or(rule.get("verbs")), frozenset(names) if names else None, grant)

    def find(self, question: Question) -> Grant | None:
        """Return the first binding that allows a request, or None."""
        verb, name = question.verb, question.name
        for right in self.of(question.group, question.resource, question.subresource):
            if (right.verbs is None or verb in right.verbs) and (right.names is None or name in right.names):
                return right.grant
        return None

    def find_path(self, verb: str, path: str) -> Grant | None:
        for rule, grant in self.rules:
            urls = rule.get("nonResourceURLs")
            if (
                urls
                and any(each in ("*", verb) for each in rule.get("verbs") or ())
                and any(url_matches(url, path) for url in urls)
            ):
                return grant
        return None


def _all_or(verbs: list[str] | None) -> frozenset[str] | None:
    return None if verbs and "*" in verbs else frozenset(verbs or ())


class RoleIndex:
    """Index of a server's roles and bindings. `stores` are the registry's, by (group, plural)."""

    def __init__(self, stores: Mapping[tuple[str, str], Store]) -> None:
        self._roles: dict[tuple[str, str], list[Json]] = {}
        self._grants: dict[str, Grant] = {}
        self._subjects: dict[tuple[str, str, str], dict[str, Grant]] = {}
        self._rights: dict[tuple[str, tuple[str, ...], str], Rights] = {}
        self._sources: tuple[tuple[Store, Callable[[Entry], None], Callable[[Entry], None]], ...] = tuple(
            (stores[GROUP, plural], put, take)
            for plural, put, take in (
                ("clusterroles", self._put_role, self._remove_role),
                ("roles", self._put_role, self._remove_role),
                ("clusterrolebindings", self._put_binding, self._remove_binding),
                ("rolebindings", self._put_binding, self._remove_binding),
            )
        )
        self._cursors: tuple[Cursor, ...] = ()

    def rights(self, user: User, namespace: str) -> Rights:
        """Return the rights of a user in a namespace, or cluster-wide for ""."""
        cursors = self._cursors
        if not cursors:
            self._load()
        else:
            for cursor in cursors:
                if cursor.pending:
                    self._read_on()
                    break
        key = (user.name, user.groups, namespace)
        found = self._rights.get(key)
        if found is None:
            if len(self._rights) >= _MOST_USERS:
                self._rights.clear()
            found = self._rights[key] = self._collect(user, namespace)
        return found

    def role(self, kind: str, namespace: str, name: str) -> list[Json] | None:
        """Return the rules of a role, or None if it does not exist."""
        if not self._cursors:
            self._load()
        else:
            self._read_on()
        return self._roles.get(("" if kind == "ClusterRole" else namespace, name))

    def _collect(self, user: User, namespace: str) -> Rights:
        rules: list[tuple[Json, Grant]] = []
        missing: list[Grant] = []
        for scope in ("", namespace) if namespace else ("",):
            found = dict(self._subjects.get((scope, "user", user.name), {}))
            for group in user.groups:
                found.update(self._subjects.get((scope, "group", group), {}))
            for key in sorted(found):
                grant = found[key]
                granted = self._roles.get(("" if grant.role_kind == "ClusterRole" else scope, grant.role))
                if granted is None:
                    missing.append(grant)
                else:
                    rules += [(rule, grant) for rule in granted]
        return Rights(rules, missing)

    # Updates from events.

    def _load(self) -> None:
        for kept in (self._roles, self._grants, self._subjects, self._rights):
            kept.clear()
        cursors = []
        for store, put, _ in self._sources:
            cursors.append(store.cache.cursor(store.cache.revision))
            for entry in store.cache.list().entries:
                put(entry)
        self._cursors = tuple(cursors)

    def _read_on(self) -> None:
        for cursor, (_, put, take) in zip(self._cursors, self._sources, strict=True):
            try:
                while events := cursor.next_batch():
                    self._rights.clear()
                    for event in events:
                        if event.deleted:
                            take(event.new)
                        else:
                            put(event.new)
            except Expired:
                self._load()
                return

    def _put_role(self, entry: Entry) -> None:
        metadata = entry.obj["metadata"]
        self._roles[metadata.get("namespace", ""), metadata["name"]] = entry.obj.get("rules") or []

    def _remove_role(self, entry: Entry) -> None:
        metadata = entry.obj["metadata"]
        self._roles.pop((metadata.get("namespace", ""), metadata["name"]), None)

    def _put_binding(self, entry: Entry) -> None:
        self._remove_binding(entry)
        obj = entry.obj
        metadata, ref = obj["metadata"], obj["roleRef"]
        namespace = metadata.get("namespace", "")
        kind = "RoleBinding" if namespace else "ClusterRoleBinding"
        grant = Grant(
            kind,
            namespace,
            metadata["name"],
            ref.get("kind", ""),
            ref.get("name", ""),
            tuple(obj.get("subjects") or ()),
        )
        self._grants[entry.key] = grant
        for subject in grant.subjects:
            key = _key(subject, namespace)
            if key is not None:
                self._subjects.setdefault((namespace, *key), {})[entry.key] = grant

    def _remove_binding(self, entry: Entry) -> None:
        grant = self._grants.pop(entry.key, None)
        for subject in grant.subjects if grant is not None else ():
            key = _key(subject, grant.namespace if grant is not None else "")
            under = self._subjects.get((grant.namespace, *key)) if grant is not None and key is not None else None
            if under is not None:
                under.pop(entry.key, None)
