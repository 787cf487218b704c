"""Finds devices for the claims of a pod on a node, given the existing allocations.

Pure: no I/O, no event loop, no clock. Objects are plain dicts as the API serves them.

Reading order: `allocator` (the interface) → `devices`, `pools`, `inventory` (slices, and their pools per node) →
`allocated` (devices in use) → `view` (one node's devices as bit masks) → `plan` (compiled claims) → `candidates`
(devices for each request on a node) → `choices`, `search`, `pruning` (the first solution) → `result` → `explain`.
"""

from controllers.allocator.allocated import AllocatedState, claim_key, claim_name
from controllers.allocator.allocator import Allocator, PodAllocator
from controllers.allocator.choices import Solution
from controllers.allocator.errors import AllocationError, AllocationInterrupted, Rejection
from controllers.allocator.features import Features
from controllers.allocator.inventory import Inventory

__all__ = [
    "AllocatedState",
    "AllocationError",
    "AllocationInterrupted",
    "Allocator",
    "Features",
    "Inventory",
    "PodAllocator",
    "Rejection",
    "Solution",
    "claim_key",
    "claim_name",
]
