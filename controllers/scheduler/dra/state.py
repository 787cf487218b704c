"""The state of the plugin DynamicResources for one attempt."""

from __future__ import annotations

from dataclasses import dataclass, field

from apiserver.api.objects import Json
from apiserver.api.selectors.node_selectors import NodeSelector
from controllers.allocator import PodAllocator
from controllers.scheduler.dra.extended_resources import IN_MEMORY


@dataclass(slots=True)
class Variant:
    """The claims to allocate on some nodes: the pod's own, and the special claim as those nodes need it."""

    allocator: PodAllocator | None
    """None: no claims to allocate."""
    positions: list[int]
    """The positions of the claims to allocate."""
    prioritized: list[bool]
    """For each of their requests whether its choice counts for the score."""
    special: Json | None = None
    """The special claim with its requests."""
    mappings: list[Json] = field(default_factory=list)
    """The mappings of its requests to containers."""


@dataclass(slots=True)
class DynamicState:
    """One attempt for one pod with claims."""

    claims: list[Json]
    """The special claim is the last."""
    consumers: list[Json]
    """The consumer for each claim's reservation: the pod, or its group."""
    selectors: list[NodeSelector | None]
    """The node selectors of allocated claims."""
    pending: list[int]
    """The positions of the pod's own claims to allocate."""
    shared: dict[int, Json] = field(default_factory=dict)
    """Allocations for another member of the pod's group in the same cycle, by position."""
    special: int | None = None
    """The position of the claim for extended resources."""
    extended: dict[str, int] = field(default_factory=dict)
    """The extended resources that the pod requests."""
    variants: dict[frozenset[str], Variant] = field(default_factory=dict)
    """By the extended resources that devices must serve."""
    chosen: Variant | None = None
    """The variant for the chosen node, since Reserve."""
    fixed_score: int = 0
    """The constant score of the allocated claims, equal for every node."""
    shape: bytes | None = b""
    """Equal for claims that every node treats alike; None: verdicts are not cacheable."""
    unavailable: set[int] = field(default_factory=set)
    """The positions of allocated claims that some node could not use."""
    reserved: dict[int, tuple[Json, Json]] = field(default_factory=dict)
    """Claims and allocations of Reserve, by position."""
    statuses: list[Json] = field(default_factory=list)
    """The node resources of those claims, in the pod's status form."""

    @property
    def some_allocated(self) -> bool:
        return len(self.pending) + (self.special is not None) < len(self.claims)

    @property
    def scores(self) -> bool:
        return bool(self.fixed_score) or any(any(variant.prioritized) for variant in self.variants.values())

    @property
    def is_stale(self) -> bool:
        """Return whether the special claim is left over from an earlier attempt."""
        return self.special is not None and self.claims[self.special]["metadata"]["name"] != IN_MEMORY
