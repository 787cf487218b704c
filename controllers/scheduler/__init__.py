"""The scheduler: brings pods to nodes and claims to devices, as kube-scheduler with default settings does.

Reading order: `scheduler` (the loop and what becomes of a pod) → `watching` (from events to state) → `queue`, `changes`
(who waits for what) → `nodes`, `podinfo`, `requests`, `terms` (what is known) → `evaluate` (finding a node) → `local`,
`spread`, `interpod`,
`dynamic` (the plugins) → `claims`, `claimwrites`, `podwrites` (what is written) → `preemption`, `status` (texts).
"""

from __future__ import annotations

from controllers.options import Options
from controllers.runtime.client import Client
from controllers.runtime.clock import Clock
from controllers.runtime.informer import Informers
from controllers.scheduler.scheduler import Scheduler

__all__ = ["Scheduler", "build"]


def build(client: Client, informers: Informers, clock: Clock, options: Options) -> Scheduler:
    """The component, for the table of components."""
    return Scheduler(client, informers, clock, options)
