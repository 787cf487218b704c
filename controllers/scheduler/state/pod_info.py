"""A pod with its parsed fields."""

from __future__ import annotations

from functools import cached_property

from apiserver.api.helpers.pod_requests import ASSUMED, EVERYTHING, Amounts, Counts, pod_requests
from apiserver.api.objects import Json
from apiserver.api.selectors.node_selectors import PreferredTerms, RequiredNodeAffinity
from controllers.scheduler.state.terms import Term, parse_terms
from controllers.volumes import pod_claims

Port = tuple[str, str, int]
"""Host address, protocol, port."""


class PodInfo:
    """One version of a pod. `counts` decides which gated resources count."""

    def __init__(self, pod: Json, counts: Counts = EVERYTHING) -> None:
        metadata = pod["metadata"]
        self.pod, self.counts = pod, counts
        self.uid: str = metadata["uid"]
        self.name: str = metadata["name"]
        self.namespace: str = metadata["namespace"]
        self.key = f"{self.namespace}/{self.name}"
        self.spec: Json = pod["spec"]
        self.priority: int = self.spec.get("priority") or 0

    @property
    def labels(self) -> Json:
        return self.pod["metadata"].get("labels") or {}

    @cached_property
    def requests(self) -> Amounts:
        """Return the resource requests without zeros."""
        return {name: value for name, value in pod_requests(self.pod, counts=self.counts).items() if value}

    @cached_property
    def assumed_requests(self) -> tuple[int, int]:
        """Return cpu and memory requests with the defaults that scoring assumes."""
        requests = pod_requests(self.pod, ASSUMED, self.counts)
        return requests.get("cpu", 0), requests.get("memory", 0)

    @property
    def tolerations(self) -> list[Json]:
        return self.spec.get("tolerations") or []

    @cached_property
    def ports(self) -> tuple[Port, ...]:
        """Return the host ports."""
        ports = []
        init = (c for c in self.spec.get("initContainers") or () if c.get("restartPolicy") == "Always")
        for container in (*self.spec["containers"], *init):
            for port in container.get("ports") or ():
                if port.get("hostPort"):
                    ports.append((port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"]))  # noqa: PERF401, S104
        return tuple(ports)

    @cached_property
    def images(self) -> tuple[str, ...]:
        """Return the full names of the images, in the order of scoring."""
        spec = self.spec
        names = [c.get("image", "") for c in (*(spec.get("initContainers") or ()), *spec["containers"])]
        names += [v["image"].get("reference", "") for v in spec.get("volumes") or () if v.get("image")]
        return tuple(name if name.rfind(":") > name.rfind("/") else f"{name}:latest" for name in names)

    @cached_property
    def node_affinity(self) -> RequiredNodeAffinity:
        return RequiredNodeAffinity.of_pod(self.pod)

    @cached_property
    def preferred_nodes(self) -> PreferredTerms | None:
        """Return the preferred node affinity. Raise InvalidNodeSelector."""
        affinity = (self.spec.get("affinity") or {}).get("nodeAffinity") or {}
        terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution")
        return PreferredTerms.parse(terms) if terms else None

    @cached_property
    def named_nodes(self) -> frozenset[str] | None:
        """Return the nodes named by required node affinity, if every term of it names some."""
        affinity = (self.spec.get("affinity") or {}).get("nodeAffinity") or {}
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
        if not required or not required.get("nodeSelectorTerms"):
            return None
        names: set[str] = set()
        for term in required["nodeSelectorTerms"]:
            of_term: set[str] | None = None
            for item in term.get("matchFields") or ():
                if item["key"] == "metadata.name" and item["operator"] == "In":
                    values = set(item.get("values") or ())
                    of_term = values if of_term is None else of_term & values
            if of_term is None:
                return None
            names |= of_term
        return frozenset(names)

    @property
    def has_pod_affinity(self) -> bool:
        affinity = self.spec.get("affinity")
        return affinity is not None and bool(affinity.get("podAffinity") or affinity.get("podAntiAffinity"))

    @cached_property
    def required_affinity(self) -> tuple[Term, ...]:
        return parse_terms(self.pod, "podAffinity", preferred=False)

    @cached_property
    def required_anti_affinity(self) -> tuple[Term, ...]:
        return parse_terms(self.pod, "podAntiAffinity", preferred=False)

    @cached_property
    def preferred_affinity(self) -> tuple[Term, ...]:
        return parse_terms(self.pod, "podAffinity", preferred=True)

    @cached_property
    def preferred_anti_affinity(self) -> tuple[Term, ...]:
        return parse_terms(self.pod, "podAntiAffinity", preferred=True)

    @cached_property
    def volume_claims(self) -> tuple[tuple[str, bool], ...]:
        """Return the names of the volumes' claims and whether each claim is generated for the pod."""
        return tuple(pod_claims(self.pod))

    def counts_as(self, other: PodInfo) -> bool:
        """Return whether two versions of a pod count equally for nodes and other pods."""
        ending = ("deletionTimestamp" in each.pod["metadata"] for each in (self, other))
        return self.requests == other.requests and self.labels == other.labels and len(set(ending)) == 1

    @property
    def has_claims(self) -> bool:
        return bool(self.spec.get("resourceClaims"))
