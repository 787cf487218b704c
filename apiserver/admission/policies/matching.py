"""Matching of requests to policies and webhooks.

It uses rules that name operations on resources, selectors of namespaces and objects, and equivalent resources in other
versions.

    matcher = Matcher(rules=…, exclude=…, namespace_selector=…, object_selector=…, equivalent=True)
    found = matcher.covers("CREATE", scopes, in_namespace=True)     once per resource and operation
    scope = matcher.match(found, attributes)                        per request: the matching scope, or None

`covers` tests the common properties of a kind of requests, `match` those of one request.
Facts: apiserver, pkg/admission/plugin/webhook/predicates and pkg/admission/plugin/policy/matching.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from apiserver.admission.policies.requests import RequestScope, namespace_of
from apiserver.api.errors.status import not_found
from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import LabelSelector, from_object

if TYPE_CHECKING:
    from apiserver.registry.store.admission import Attributes, Operation

__all__ = ["Matcher", "Rule", "RuleMatches", "labels_of"]


_NO_LABELS: Final[Mapping[str, str]] = {}


class Rule:
    """Operations on resources. `names` are the matching objects' names; None for all."""

    __slots__ = ("_groups", "_operations", "_resources", "_scope", "_versions", "names")

    def __init__(self, rule: Json) -> None:
        self._operations = frozenset(rule.get("operations") or ())
        self._groups = frozenset(rule.get("apiGroups") or ())
        self._versions = frozenset(rule.get("apiVersions") or ())
        self._resources = tuple(
            (name, subresource)
            for name, _, subresource in (text.partition("/") for text in rule.get("resources") or ())
        )
        self._scope = rule.get("scope") or "*"
        self.names = frozenset(rule["resourceNames"]) if rule.get("resourceNames") else None

    def covers(self, operation: Operation, scope: RequestScope, *, in_namespace: bool) -> bool:
        """Return whether the rule matches an operation in a request scope. Namespaces count as cluster-scoped."""
        return (
            _includes(self._operations, operation)
            and _includes(self._groups, scope.group)
            and _includes(self._versions, scope.version)
            and any(name in ("*", scope.resource) and sub in ("*", scope.subresource) for name, sub in self._resources)
            and self._scope in ("*", "Namespaced" if in_namespace else "Cluster")
        )


def _includes(names: frozenset[str], name: str) -> bool:
    return name in names or "*" in names


class _ScopeMatch(NamedTuple):
    scope: RequestScope
    names: frozenset[str] | None

    def has(self, name: str) -> bool:
        return self.names is None or name in self.names


class RuleMatches(NamedTuple):
    """The rules' result for an operation in a scope: the matching scopes and the exclusions, by names."""

    scopes: tuple[_ScopeMatch, ...]
    excluded: tuple[_ScopeMatch, ...]


class Matcher:
    """Compiled rules and selectors.

    With `rules` None everything matches that is not excluded. With `equivalent` a rule also matches other versions of
    its resources.
    Raises SelectorError.
    """

    def __init__(
        self,
        *,
        rules: Sequence[Json] | None,
        exclude: Sequence[Json] = (),
        namespace_selector: Json | None = None,
        object_selector: Json | None = None,
        equivalent: bool = True,
    ) -> None:
        self._rules = None if rules is None else tuple(map(Rule, rules))
        self._exclude = tuple(map(Rule, exclude))
        self._namespaces, self._objects = _selector(namespace_selector), _selector(object_selector)
        self._equivalent = equivalent

    @classmethod
    def of_resources(cls, match: Json | None) -> Matcher:
        """Build the matcher of a policy's or a binding's MatchResources; None matches everything."""
        match = match or {}
        return cls(
            rules=match.get("resourceRules") or None,
            exclude=match.get("excludeResourceRules") or (),
            namespace_selector=match.get("namespaceSelector"),
            object_selector=match.get("objectSelector"),
            equivalent=match.get("matchPolicy", "Exact") == "Equivalent",
        )

    def covers(self, operation: Operation, scopes: Sequence[RequestScope], *, in_namespace: bool) -> RuleMatches | None:
        """Match the rules to an operation in the first of `scopes`; the others are its equivalents.

        Returns None if requests of the kind never match.
        """
        own = scopes[0]
        if self._rules is None:
            found: tuple[_ScopeMatch, ...] = (_ScopeMatch(own, None),)
        else:
            found = self._match_rules(self._rules, operation, scopes, in_namespace=in_namespace)
        if not found:
            return None
        excluded = self._match_rules(self._exclude, operation, scopes, in_namespace=in_namespace)
        return None if any(item.names is None for item in excluded) else RuleMatches(found, excluded)

    def _match_rules(
        self, rules: Sequence[Rule], operation: Operation, scopes: Sequence[RequestScope], *, in_namespace: bool
    ) -> tuple[_ScopeMatch, ...]:
        """Return the matches in upstream's order: the request's own scope with each rule, then the other scopes."""
        found = [
            _ScopeMatch(scopes[0], rule.names) for rule in rules if _covers(rule, operation, scopes[0], in_namespace)
        ]
        if self._equivalent:
            found += [
                _ScopeMatch(scope, rule.names)
                for rule in rules
                for scope in scopes[1:]
                if _covers(rule, operation, scope, in_namespace)
            ]
        return tuple(found)

    def match(self, matches: RuleMatches, attributes: Attributes, name: str | None = None) -> RequestScope | None:
        """Return the scope in which a request matches, or None.

        `name` replaces the request's name if the rules use another one.
        Raises StatusError if a namespace selector applies and the namespace is missing.
        """
        name = attributes.name if name is None else name
        scope = next((found.scope for found in matches.scopes if found.has(name)), None)
        if scope is None or any(found.has(name) for found in matches.excluded):
            return None
        if not self._selects_object(attributes) or not self._selects_namespace(attributes):
            return None
        return scope

    def _selects_object(self, attributes: Attributes) -> bool:
        return self._objects is None or self.selects(labels_of(attributes))

    def selects(self, labels: Sequence[Mapping[str, str]]) -> bool:
        """Return whether the selector matches one of these label sets, before or after the request: see `labels_of`."""
        selector = self._objects
        if selector is None:
            return True
        for given in labels:  # noqa: SIM110 - a generator costs more than the tests
            if selector.matches(given):
                return True
        return False

    def _selects_namespace(self, attributes: Attributes) -> bool:
        selector = self._namespaces
        if selector is None:
            return True
        of_namespaces = attributes.resource.plural == "namespaces"
        if of_namespaces and not attributes.subresource and attributes.operation in ("CREATE", "UPDATE"):
            labels = ((attributes.obj or {}).get("metadata") or {}).get("labels")
            return selector.matches(labels or _NO_LABELS)
        namespace = namespace_of(attributes)
        if not namespace and not of_namespaces:
            return True  # A namespace selector never excludes cluster-scoped objects.
        found = attributes.ctx.lookup("", "namespaces", "", namespace)
        if found is None:
            raise not_found("namespaces", "", namespace)
        return selector.matches(found["metadata"].get("labels") or _NO_LABELS)


def labels_of(attributes: Attributes) -> list[Mapping[str, str]]:
    """Return the labels of the request's new object and of its old one, as far as they exist."""
    return [
        (obj.get("metadata") or {}).get("labels") or _NO_LABELS
        for obj in (attributes.obj, attributes.old)
        if obj is not None
    ]


def _covers(rule: Rule, operation: Operation, scope: RequestScope, in_namespace: bool) -> bool:
    return rule.covers(operation, scope, in_namespace=in_namespace)


def _selector(selector: Json | None) -> LabelSelector | None:
    """Parse a selector. Return None if it selects everything."""
    if not selector:
        return None
    made = from_object(selector)
    return None if made.empty else made
