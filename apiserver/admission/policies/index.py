"""The policies that are in effect: each with its bindings, ready to be matched.

A policy is in effect from the moment on at which it and a binding of it are in the watch cache. What rules say of a
kind of requests is found out once and kept until a policy or binding changes, so that requests that no policy is about
cost a look-up. Nothing here brings in CEL: `evaluator` of a policy does, when the first request matches it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import orjson

from apiserver.admission.policies.matching import Covered, Matcher, labels_of
from apiserver.admission.policies.requests import Place, equivalents, place_of
from apiserver.api.objects import Json
from apiserver.registry.definition.resource import Resource
from apiserver.runtime.offload import call_on_loop
from apiserver.storage.log.types import Expired

if TYPE_CHECKING:
    from apiserver.cel.language.time_limit import Meter
    from apiserver.registry.store.admission import Attributes, Operation
    from apiserver.registry.store.store import Registry, Store
    from apiserver.storage.watchcache.window import Cursor

__all__ = [
    "GROUP", "Active", "Binding", "FromFiles", "Policy", "PolicyIndex", "is_bound", "is_judged", "is_long",
    "mentions_authorizer",
]  # fmt: skip


GROUP: Final = "admissionregistration.k8s.io"
#: Kinds that no policy of the API is about, so that a wrong one can be taken back.
_POLICY_KINDS: Final = frozenset(
    f"{kind}AdmissionPolicy{what}" for kind in ("Validating", "Mutating") for what in ("", "Binding")
)
_LONG: Final = 1024
#: Reviews store nothing.
_REVIEWS: Final = frozenset({"authentication.k8s.io", "authorization.k8s.io"})


def is_long(spec: Any) -> bool:
    """Whether the expressions of a policy or webhook take long to compile: up to ten milliseconds a kilobyte."""
    return len(orjson.dumps(spec)) > _LONG


def mentions_authorizer(expressions: Any) -> bool:
    """Return whether expressions, as JSON, may call the authorizer."""
    return "authorizer" in str(expressions)


class FromFiles(Protocol):
    """Policies and webhooks that are no objects of the API, but read from files, which are asked before those that are;
    they alone are asked about the kinds that configure admission.
    """

    def objects(self, plural: str) -> Sequence[Json]:
        """The objects of a resource in hub form, by name."""

    def when_changed(self, tell: Callable[[], None]) -> None:
        """From now on `tell` is called after each change."""


def is_judged(resource: Resource, files: FromFiles | None) -> bool:
    """Whether any policy may be about a resource."""
    return resource.group not in _REVIEWS and (files is not None or not _is_policy_kind(resource))


def _is_policy_kind(resource: Resource) -> bool:
    return resource.group == GROUP and resource.kind in _POLICY_KINDS


class Binding:
    """A binding of a policy. `matcher` is None where it is about whatever its policy is about."""

    def __init__(self, obj: Json) -> None:
        self.name: str = obj["metadata"]["name"]
        self.spec: Json = obj["spec"]
        match = self.spec.get("matchResources")
        self.matcher = None if match is None else Matcher.of_resources(match)


class Policy:
    """A policy with its bindings. `compile` makes its evaluator of it."""

    def __init__(self, obj: Json, compile: Callable[[Json], Any]) -> None:
        self.name: str = obj["metadata"]["name"]
        self.revision: str = obj["metadata"].get("resourceVersion", "")
        self.obj, self.spec = obj, obj["spec"]
        self.matcher = Matcher.of_resources(self.spec.get("matchConstraints"))
        self.mentions_authorizer = mentions_authorizer(self.spec)
        self.bindings: tuple[Binding, ...] = ()
        self._compile = compile

    @cached_property
    def evaluator(self) -> Any:
        return self._compile(self.obj)

    def compiled(self, meter: Meter) -> Any:
        """Its evaluator, which takes time to be made. Raises what the meter raises."""
        if "evaluator" not in self.__dict__:
            meter.look()
            if is_long(self.spec):
                meter.leave()
        return self.evaluator

    @property
    def fails_closed(self) -> bool:
        """Whether a request is refused where the policy cannot be evaluated."""
        return bool(self.spec.get("failurePolicy") != "Ignore")


class Active(NamedTuple):
    """A policy that may be about requests of a kind, and those of its bindings that may be, too; a binding without
    rules of its own covers whatever its policy does (None).
    """

    policy: Policy
    covered: Covered
    bindings: tuple[tuple[Binding, Covered | None], ...]


class _Kept(NamedTuple):
    """`resource` is kept so that nothing else can have its identity."""

    resource: Resource
    active: tuple[Active, ...]


class PolicyIndex:
    """The policies of one of the two kinds, by the plurals of policies and bindings: those in `files`, then those of
    the API.
    """

    def __init__(
        self,
        registry: Registry,
        policies: str,
        bindings: str,
        compile: Callable[[Json], Any],
        files: FromFiles | None = None,
    ) -> None:
        self._registry, self._plurals, self._compile = registry, (policies, bindings), compile
        self._cursors: tuple[Cursor, ...] = ()
        self._policies: dict[str, Policy] = {}
        self._files, self._from_files = files, tuple[Policy, ...]()
        #: All of them, in the order in which they are asked.
        self._all: tuple[Policy, ...] = ()
        self._by_kind: dict[tuple[int, str, str, str], _Kept] = {}
        if files is not None:
            files.when_changed(self._read_files)
            self._read_files()

    def active(self, attributes: Attributes) -> tuple[Active, ...]:
        """The policies that may be about a request, in the order of their names."""
        about = self.about(attributes)
        if not about:
            return ()
        labels = labels_of(attributes)
        return tuple([active for active in about if active.policy.matcher.selects(labels)])

    def concerns(self, attributes: Attributes) -> bool:
        """Whether there are such, as far as is known: before policies can be read there may be."""
        return bool(self.about(attributes)) or not self._cursors

    def about(self, attributes: Attributes) -> tuple[Active, ...]:
        """Those that may be about requests of its kind, whatever labels there are."""
        cursors = self._cursors
        if not cursors:
            call_on_loop(self._load)
        elif cursors[0].pending or cursors[1].pending:
            call_on_loop(self._read_on)
        # What a thread finds while the policies change goes into what is of no use any more.
        by_kind = self._by_kind
        if not self._all:
            return ()
        resource = attributes.resource
        key = (id(resource), attributes.ctx.version, attributes.subresource, attributes.operation)
        kept = by_kind.get(key)
        if kept is None:
            kept = by_kind[key] = _Kept(resource, self._found(attributes))
        return kept.active

    def _stores(self) -> list[Store]:
        found = (self._registry.stores.get((GROUP, plural)) for plural in self._plurals)
        return [store for store in found if store is not None]

    def _load(self) -> None:
        stores = self._stores()
        if len(stores) < len(self._plurals):
            return
        self._cursors = tuple(store.cache.cursor(store.cache.revision) for store in stores)
        self._put()

    def _read_on(self) -> None:
        try:
            for cursor in self._cursors:
                while cursor.next_batch():
                    pass
        except Expired:
            self._load()
            return
        self._put()

    def _put(self) -> None:
        """Takes what the caches show; a policy that did not change stays as it was compiled."""
        policies, bindings = ([entry.obj for entry in store.cache.list().entries] for store in self._stores())
        self._policies = self._bound(policies, bindings, self._policies)
        self._order()

    def _bound(
        self, policies: Sequence[Json], bindings: Sequence[Json], before: dict[str, Policy]
    ) -> dict[str, Policy]:
        """The policies that are bound, by name."""
        bound: dict[str, list[Binding]] = {}
        for obj in bindings:
            bound.setdefault(obj["spec"].get("policyName", ""), []).append(Binding(obj))
        made: dict[str, Policy] = {}
        for obj in policies:
            metadata = obj["metadata"]
            if metadata["name"] not in bound:
                continue
            policy = before.get(metadata["name"])
            if policy is None or policy.revision != metadata["resourceVersion"]:
                policy = Policy(obj, self._compile)
            policy.bindings = tuple(bound[policy.name])
            made[policy.name] = policy
        return made

    def _read_files(self) -> None:
        assert self._files is not None, "who is told of changes has files"
        policies, bindings = map(self._files.objects, self._plurals)
        self._from_files = tuple(self._bound(policies, bindings, {}).values())
        self._order()
        self._registry.forget_handlers()

    def _order(self) -> None:
        self._all = (*self._from_files, *self._policies.values())
        self._by_kind = {}

    def _found(self, attributes: Attributes) -> tuple[Active, ...]:
        resource, operation = attributes.resource, attributes.operation
        own = place_of(attributes)
        places = (own, *equivalents(self._registry, own))
        found = []
        for policy in self._from_files if _is_policy_kind(resource) else self._all:
            covered = policy.matcher.covers(operation, places, in_namespace=resource.namespaced)
            if covered is None:
                continue
            bindings = _bindings(policy, operation, places, in_namespace=resource.namespaced)
            if bindings:
                found.append(Active(policy, covered, bindings))
        return tuple(found)


def _bindings(
    policy: Policy, operation: Operation, places: tuple[Place, ...], *, in_namespace: bool
) -> tuple[tuple[Binding, Covered | None], ...]:
    found: list[tuple[Binding, Covered | None]] = []
    for binding in policy.bindings:
        if binding.matcher is None:
            found.append((binding, None))
            continue
        covered = binding.matcher.covers(operation, places, in_namespace=in_namespace)
        if covered is not None:
            found.append((binding, covered))
    return tuple(found)


def is_bound(binding: Binding, covered: Covered | None, attributes: Attributes) -> bool:
    """Whether a binding is about a request that its policy is about. Raises StatusError."""
    if binding.matcher is None or covered is None:
        return True
    return binding.matcher.match(covered, attributes) is not None
