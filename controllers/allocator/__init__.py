"""Which devices of which pools satisfy the claims of a pod on a node, given what is allocated already.

Pure: no I/O, no event loop, no clock. Objects are plain dicts as the API serves them.

Reading order: `allocator` (what callers use) → `devices`, `pools`, `inventory` (slices and what nodes see of them) →
`allocated` (what is in use) → `view` (one node's devices as bit masks) → `plan` (what claims ask for) →
`candidates` (what a request may take on a node) → `choices`, `search`, `pruning` (the first solution) → `result` →
`explain`.
"""

from controllers.allocator.allocated import Allocated, claim_key, claim_name
from controllers.allocator.allocator import Allocator, PodAllocator
from controllers.allocator.choices import Solution
from controllers.allocator.errors import AllocationError, AllocationInterrupted, Rejection
from controllers.allocator.features import Features
from controllers.allocator.inventory import Inventory

__all__ = [
    "Allocated",
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
