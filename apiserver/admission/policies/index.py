"""The active policies: each with its bindings, ready for matching.

A policy is active as soon as it and one of its bindings are in the watch cache. The rules' result for a kind of
requests is cached until a policy or binding changes, so an unrelated request costs one lookup. This module does not
load CEL. The `evaluator` of a policy does, at the first matching request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import orjson

from apiserver.admission.policies.matching import Matcher, RuleMatches, labels_of
from apiserver.admission.policies.requests import RequestScope, equivalents, get_request_scope
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
    "GROUP",
    "ActivePolicy",
    "Binding",
    "ManifestSource",
    "Policy",
    "PolicyIndex",
    "can_have_policies",
    "is_bound",
    "is_long",
    "mentions_authorizer",
]  # fmt: skip


GROUP: Final = "admissionregistration.k8s.io"
#: Kinds that no policy of the API matches, so that a wrong policy can be removed.
_POLICY_KINDS: Final = frozenset(
    f"{kind}AdmissionPolicy{what}" for kind in ("Validating", "Mutating") for what in ("", "Binding")
)
_LONG: Final = 1024
#: Groups of reviews, which are not stored.
_REVIEWS: Final = frozenset({"authentication.k8s.io", "authorization.k8s.io"})


def is_long(spec: Any) -> bool:
    """Return whether the expressions of a policy or webhook take long to compile: up to 10 ms per KiB."""
    return len(orjson.dumps(spec)) > _LONG


def mentions_authorizer(expressions: Any) -> bool:
    """Return whether expressions, as JSON, may call the authorizer."""
    return "authorizer" in str(expressions)


class ManifestSource(Protocol):
    """Policies and webhooks from files instead of the API. They are called first.

    Only they are called for the kinds that configure admission.
    """

    def objects(self, plural: str) -> Sequence[Json]:
        """Return the objects of a resource in hub form, by name."""

    def subscribe(self, notify: Callable[[], None]) -> None:
        """Call `notify` after each further change."""


def can_have_policies(resource: Resource, files: ManifestSource | None) -> bool:
    """Return whether any policy may match a resource."""
    return resource.group not in _REVIEWS and (files is not None or not _is_policy_kind(resource))


def _is_policy_kind(resource: Resource) -> bool:
    return resource.group == GROUP and resource.kind in _POLICY_KINDS


class Binding:
    """A binding of a policy. `matcher` is None if it matches everything that its policy matches."""

    def __init__(self, obj: Json) -> None:
        self.name: str = obj["metadata"]["name"]
        self.spec: Json = obj["spec"]
        match = self.spec.get("matchResources")
        self.matcher = None if match is None else Matcher.of_resources(match)


class Policy:
    """A policy with its bindings. `compile` builds its evaluator."""

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

    def get_evaluator(self, meter: Meter) -> Any:
        """Return the evaluator; building it takes time. Raise the meter's errors."""
        if "evaluator" not in self.__dict__:
            meter.check_time()
            if is_long(self.spec):
                meter.begin_long_work()
        return self.evaluator

    @property
    def fails_closed(self) -> bool:
        """Whether a failed evaluation refuses the request."""
        return bool(self.spec.get("failurePolicy") != "Ignore")


class ActivePolicy(NamedTuple):
    """A policy that may match a kind of requests, with its bindings that may match.

    A binding without rules of its own has None and covers whatever its policy covers.
    """

    policy: Policy
    matches: RuleMatches
    bindings: tuple[tuple[Binding, RuleMatches | None], ...]


class _CachedPolicies(NamedTuple):
    """The active policies of a resource. The reference to `resource` keeps its identity unique."""

    resource: Resource
    active: tuple[ActivePolicy, ...]


class PolicyIndex:
    """The policies of one of the two kinds, by the plurals of policies and bindings.

    Those in `files` come first, then those of the API.
    """

    def __init__(
        self,
        registry: Registry,
        policies: str,
        bindings: str,
        compile: Callable[[Json], Any],
        files: ManifestSource | None = None,
    ) -> None:
        self._registry, self._plurals, self._compile = registry, (policies, bindings), compile
        self._cursors: tuple[Cursor, ...] = ()
        self._policies: dict[str, Policy] = {}
        self._files, self._from_files = files, tuple[Policy, ...]()
        #: All policies, in the order of their calls.
        self._all: tuple[Policy, ...] = ()
        self._by_kind: dict[tuple[int, str, str, str], _CachedPolicies] = {}
        if files is not None:
            files.subscribe(self._read_files)
            self._read_files()

    def active(self, attributes: Attributes) -> tuple[ActivePolicy, ...]:
        """Return the policies that may match a request, by name."""
        get_candidates = self.get_candidates(attributes)
        if not get_candidates:
            return ()
        labels = labels_of(attributes)
        return tuple([active for active in get_candidates if active.policy.matcher.selects(labels)])

    def can_handle(self, attributes: Attributes) -> bool:
        """Return whether a policy may match; before the policies can be read, always True."""
        return bool(self.get_candidates(attributes)) or not self._cursors

    def get_candidates(self, attributes: Attributes) -> tuple[ActivePolicy, ...]:
        """Return the policies that may match the kind of a request, whatever its labels."""
        cursors = self._cursors
        if not cursors:
            call_on_loop(self._load)
        elif cursors[0].pending or cursors[1].pending:
            call_on_loop(self._read_changes)
        # A result that a thread computes while the policies change goes into the replaced dict.
        by_kind = self._by_kind
        if not self._all:
            return ()
        resource = attributes.resource
        key = (id(resource), attributes.ctx.version, attributes.subresource, attributes.operation)
        cached = by_kind.get(key)
        if cached is None:
            cached = by_kind[key] = _CachedPolicies(resource, self._find_active(attributes))
        return cached.active

    def _stores(self) -> list[Store]:
        found = (self._registry.stores.get((GROUP, plural)) for plural in self._plurals)
        return [store for store in found if store is not None]

    def _load(self) -> None:
        stores = self._stores()
        if len(stores) < len(self._plurals):
            return
        self._cursors = tuple(store.cache.cursor(store.cache.revision) for store in stores)
        self._reload()

    def _read_changes(self) -> None:
        try:
            for cursor in self._cursors:
                while cursor.next_batch():
                    pass
        except Expired:
            self._load()
            return
        self._reload()

    def _reload(self) -> None:
        """Read the policies from the caches; an unchanged policy keeps its evaluator."""
        policies, bindings = ([entry.obj for entry in store.cache.list().entries] for store in self._stores())
        self._policies = self._bind_policies(policies, bindings, self._policies)
        self._order()

    def _bind_policies(
        self, policies: Sequence[Json], bindings: Sequence[Json], before: dict[str, Policy]
    ) -> dict[str, Policy]:
        """Return the policies with bindings, by name."""
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
        assert self._files is not None, "only a followed index has files"
        policies, bindings = map(self._files.objects, self._plurals)
        self._from_files = tuple(self._bind_policies(policies, bindings, {}).values())
        self._order()
        self._registry.clear_handlers()

    def _order(self) -> None:
        self._all = (*self._from_files, *self._policies.values())
        self._by_kind = {}

    def _find_active(self, attributes: Attributes) -> tuple[ActivePolicy, ...]:
        resource, operation = attributes.resource, attributes.operation
        own = get_request_scope(attributes)
        scopes = (own, *equivalents(self._registry, own))
        found = []
        for policy in self._from_files if _is_policy_kind(resource) else self._all:
            matches = policy.matcher.covers(operation, scopes, in_namespace=resource.namespaced)
            if matches is None:
                continue
            bindings = _bindings(policy, operation, scopes, in_namespace=resource.namespaced)
            if bindings:
                found.append(ActivePolicy(policy, matches, bindings))
        return tuple(found)


def _bindings(
    policy: Policy, operation: Operation, scopes: tuple[RequestScope, ...], *, in_namespace: bool
) -> tuple[tuple[Binding, RuleMatches | None], ...]:
    found: list[tuple[Binding, RuleMatches | None]] = []
    for binding in policy.bindings:
        if binding.matcher is None:
            found.append((binding, None))
            continue
        matches = binding.matcher.covers(operation, scopes, in_namespace=in_namespace)
        if matches is not None:
            found.append((binding, matches))
    return tuple(found)


def is_bound(binding: Binding, matches: RuleMatches | None, attributes: Attributes) -> bool:
    """Return whether a binding matches a request that its policy matches. Raise StatusError."""
    if binding.matcher is None or matches is None:
        return True
    return binding.matcher.match(matches, attributes) is not None
