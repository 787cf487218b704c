"""What the plugin DynamicResources knows of one attempt for one pod."""

from __future__ import annotations

from dataclasses import dataclass, field

from apiserver.api.objects import Json
from apiserver.api.selectors.node_selectors import NodeSelector
from controllers.allocator import PodAllocator
from controllers.scheduler.dra.extended_resources import IN_MEMORY


@dataclass(slots=True)
class Variant:
    """What has to be allocated on some nodes: the claims of the pod, and the special one as those nodes need it."""

    allocator: PodAllocator | None
    """None: there is nothing to allocate."""
    positions: list[int]
    """The claims to allocate."""
    prioritized: list[bool]
    """For each of their requests whether its choice counts for the score."""
    special: Json | None = None
    """The special claim with its requests."""
    mappings: list[Json] = field(default_factory=list)
    """Which container gets the devices of which request of it."""


@dataclass(slots=True)
class DynamicState:
    """One attempt for one pod with claims."""

    claims: list[Json]
    """The special one last."""
    consumers: list[Json]
    """For whom each claim is to be reserved: the pod, or its group."""
    selectors: list[NodeSelector | None]
    """Where the claims that are allocated can be used."""
    pending: list[int]
    """The pod's own claims to allocate, by position."""
    shared: dict[int, Json] = field(default_factory=dict)
    """Allocations that another member of the pod's group got a moment ago, by position."""
    special: int | None = None
    """The position of the claim for extended resources."""
    extended: dict[str, int] = field(default_factory=dict)
    """The extended resources that the pod asks for."""
    variants: dict[frozenset[str], Variant] = field(default_factory=dict)
    """By the extended resources that devices have to serve."""
    chosen: Variant | None = None
    """The one of the node, since Reserve."""
    fixed_score: int = 0
    """What the allocated claims add to the score of every node."""
    shape: bytes | None = b""
    """Equal for claims to allocate that every node treats alike; None: verdicts must not be remembered."""
    unavailable: set[int] = field(default_factory=set)
    """Allocated claims that some node could not use, by position."""
    reserved: dict[int, tuple[Json, Json]] = field(default_factory=dict)
    """Claims and allocations made in Reserve, by position."""
    statuses: list[Json] = field(default_factory=list)
    """What those claims take of the node's resources, as the pod's status says it."""

    @property
    def some_allocated(self) -> bool:
        return len(self.pending) + (self.special is not None) < len(self.claims)

    @property
    def scores(self) -> bool:
        return bool(self.fixed_score) or any(any(variant.prioritized) for variant in self.variants.values())

    @property
    def is_stale(self) -> bool:
        """Whether the special claim is left from an earlier attempt."""
        return self.special is not None and self.claims[self.special]["metadata"]["name"] != IN_MEMORY
