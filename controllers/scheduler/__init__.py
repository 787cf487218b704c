"""The scheduler: brings pods to nodes and claims to devices, as kube-scheduler with default settings does.

Reading order:

    scheduler     the loop: one pod at a time finds its node, many are bound concurrently
    framework/    what a plugin is, its statuses and events
    cycle/        the list of plugins, profiles, finding a node, from watch events to state
    plugins/, dra/, storage/, preemption/   the plugins by subject
    podgroups/    groups of pods that are placed together
    queue/        pods that wait
    state/        nodes and pods as the scheduler knows them
    writes/       what is written to pods
    config/       KubeSchedulerConfiguration
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
