"""Taints and inter-pod terms, parsed once per pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import LabelSelector, from_object

_BLOCKING = ("NoSchedule", "NoExecute")


def blocking_taints(taints: Iterable[Json]) -> tuple[Json, ...]:
    """Return the taints that keep a pod off a node."""
    return tuple(taint for taint in taints if taint.get("effect") in _BLOCKING)


def preferring(taints: Iterable[Json]) -> tuple[Json, ...]:
    """Return the taints that only lower a node's score."""
    return tuple(taint for taint in taints if taint.get("effect") == "PreferNoSchedule")


@dataclass(frozen=True, slots=True)
class Term:
    """One pod affinity term: pods by namespace and labels, counted by a label of their nodes."""

    topology_key: str
    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector
    weight: int = 0

    def matches(self, pod: Json, namespace_labels: Mapping[str, str] | None) -> bool:
        """Return whether the term selects a pod in a namespace with these labels."""
        metadata = pod["metadata"]
        if metadata["namespace"] not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(metadata.get("labels"))


def parse_terms(pod: Json, field: str, preferred: bool) -> tuple[Term, ...]:
    """Parse the terms of `podAffinity` or `podAntiAffinity`. Raise SelectorError."""
    affinity = (pod["spec"].get("affinity") or {}).get(field) or {}
    name = f"{'preferred' if preferred else 'required'}DuringSchedulingIgnoredDuringExecution"
    terms = []
    for item in affinity.get(name) or ():
        raw = item["podAffinityTerm"] if preferred else item
        namespaces = frozenset(raw.get("namespaces") or ())
        if not namespaces and raw.get("namespaceSelector") is None:
            namespaces = frozenset((pod["metadata"]["namespace"],))
        terms.append(
            Term(
                topology_key=raw["topologyKey"],
                selector=from_object(raw.get("labelSelector")),
                namespaces=namespaces,
                namespace_selector=from_object(raw.get("namespaceSelector")),
                weight=item["weight"] if preferred else 0,
            )
        )
    return tuple(terms)
