"""The scheduler: binds pods to nodes and allocates claims, as kube-scheduler with default settings does.

Reading order:

    scheduler     the loop: schedules one pod at a time, binds many concurrently
    framework/    plugins, their statuses and events
    cycle/        the list of plugins, profiles, node selection, watch event handlers
    plugins/, dra/, storage/, preemption/   the plugins by subject
    podgroups/    groups of pods that are scheduled together
    queue/        pending pods
    state/        cached nodes and pods
    writes/       writes to pods
    config/       KubeSchedulerConfiguration
"""

from __future__ import annotations

from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers
from controllers.scheduler.scheduler import Scheduler

__all__ = ["Scheduler", "build"]


def build(client: Client, informers: Informers, options: Options) -> Scheduler:
    """Build the component, for the table of components."""
    return Scheduler(client, informers, options)
