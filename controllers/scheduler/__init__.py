"""The scheduler: brings pods to nodes and claims to devices, as kube-scheduler with default settings does.

Reading order: `scheduler` (the loop and what becomes of a pod) → `framework` (what a plugin is) → `plugins` (the list)
→ `evaluate`, `memory` (finding a node) → `queue`, `events` (who waits for what) → `watching` (from watch events to
state) → `nodes`, `podinfo`, `requests`, `terms` (what is known) → `dynamic`, `claims`, `claimwrites`, `podwrites`
(devices, and what is written) → `status` (texts).
"""

from __future__ import annotations

from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers
from controllers.scheduler.scheduler import Scheduler

__all__ = ["Scheduler", "build"]


def build(client: Client, informers: Informers, options: Options) -> Scheduler:
    """The component, for the table of components."""
    return Scheduler(client, informers, options)
