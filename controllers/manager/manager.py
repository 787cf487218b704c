"""Start the chosen components and run them together until one fails or the run is cancelled.

A component is a module with

    def build(client: Client, informers: Informers, options: Options) -> Component

`build` sets the user agent of its client (`client.with_user_agent(...)`) and gets the collections it needs from
`informers`, which watch each collection once per process. It returns an object with `name`, `run()` and `idle`.
`COMPONENTS` is the only registry; modules are imported only when chosen.
"""

from __future__ import annotations

import asyncio
import importlib
import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from apiserver.runtime.metrics import Family
from controllers.options.names import ALIASES, UNSUPPORTED
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.controller import Component
from controllers.runtime.informer import Informers
from kubedra.runtime.user_settings import suggest

#: Name (kube-controller-manager's where it has one) to module, in the order in which they start.
COMPONENTS: Mapping[str, str] = MappingProxyType(
    {
        "namespace-controller": "controllers.cleanup.namespaces",
        "garbage-collector-controller": "controllers.cleanup.garbage_collector",
        "serviceaccount-controller": "controllers.cluster.service_accounts",
        "serviceaccount-token-controller": "controllers.cluster.secret_tokens",
        "legacy-serviceaccount-token-cleaner-controller": "controllers.cluster.secret_token_cleaner",
        "root-ca-certificate-publisher-controller": "controllers.cluster.root_ca",
        "kube-apiserver-serving-clustertrustbundle-publisher-controller": "controllers.certificates.trustbundle",
        "certificatesigningrequest-approving-controller": "controllers.certificates.approving",
        "certificatesigningrequest-signing-controller": "controllers.certificates.signing",
        "certificatesigningrequest-cleaner-controller": "controllers.certificates.cleaning",
        "podcertificaterequest-cleaner-controller": "controllers.certificates.podcleaning",
        "clusterrole-aggregation-controller": "controllers.cluster.cluster_roles",
        "service-cidr-controller": "controllers.cluster.service_cidrs",
        "node-lifecycle-controller": "controllers.nodelifecycle.controller",
        "ttl-controller": "controllers.nodelifecycle.ttl",
        "taint-eviction-controller": "controllers.nodelifecycle.taint_eviction",
        "pod-garbage-collector-controller": "controllers.cleanup.pod_garbage_collector",
        "endpoints-controller": "controllers.endpoints.legacy",
        "endpointslice-controller": "controllers.endpoints.slicecontroller",
        "endpointslice-mirroring-controller": "controllers.endpoints.mirroring",
        "horizontal-pod-autoscaler-controller": "controllers.workloads.autoscaling.component",
        "disruption-controller": "controllers.workloads.disruption.disruption",
        "cronjob-controller": "controllers.workloads.cronjob.cronjob",
        "job-controller": "controllers.workloads.jobs",
        "resourceclaim-controller": "controllers.resourceclaims.controller",
        "workload-references-controller": "controllers.resourceclaims.workload_references",
        "device-taint-eviction-controller": "controllers.devicetaints.eviction_controller",
        "resourcepoolstatusrequest-controller": "controllers.resourceclaims.pool_status_requests",
        "podgroup-protection-controller": "controllers.protection.pod_groups",
        "persistentvolumeclaim-protection-controller": "controllers.protection.persistent_volume_claims",
        "persistentvolume-protection-controller": "controllers.protection.persistent_volumes",
        "volumeattributesclass-protection-controller": "controllers.protection.volume_attributes_classes",
        "persistentvolume-binder-controller": "controllers.volumes.binder",
        "ephemeral-volume-controller": "controllers.volumes.ephemeral",
        "volume-provisioner": "controllers.volumes.provisioner",
        "resourcequota-controller": "controllers.cluster.resource_quotas",
        "validatingadmissionpolicy-status-controller": "controllers.cluster.policy_status",
        "ttl-after-finished-controller": "controllers.cleanup.ttl_after_finished",
        "replicationcontroller-controller": "controllers.workloads.replicaset.replicationcontroller",
        "replicaset-controller": "controllers.workloads.replicaset.replicaset",
        "deployment-controller": "controllers.workloads.deployment",
        "statefulset-controller": "controllers.workloads.statefulset",
        "daemonset-controller": "controllers.workloads.daemonset",
        "scheduler": "controllers.scheduler",
        "node-agent": "controllers.kubelet",
    }
)


class UnknownComponentError(Exception):
    """No component has this name."""


def choose(names: Sequence[str]) -> list[str]:
    """Return the components of a `--controllers` list: `*` for all, `name` to enable, `-name` to disable.

    As in kube-controller-manager, the first mention of a component wins. Upstream controllers that do not exist here
    may be disabled. Raise UnknownComponentError.
    """
    enabled: dict[str, bool] = {}
    for item in names:
        name = item.removeprefix("-")
        canonical = ALIASES.get(name, name)
        if canonical in COMPONENTS:
            enabled.setdefault(canonical, not item.startswith("-"))
        elif item != "*" and not (canonical in UNSUPPORTED and item != name):
            known = f"; use one of: {', '.join(COMPONENTS)}"
            if canonical in UNSUPPORTED:
                raise UnknownComponentError(f'controller "{name}" is not supported{known}')
            hint = suggest(name, (*COMPONENTS, *ALIASES))
            raise UnknownComponentError(f'unknown controller "{name}"{hint or known}')
    return [component for component in COMPONENTS if enabled.get(component, "*" in names)]


class Manager:
    """The chosen components of one process, with shared client and informers."""

    def __init__(self, client: Client, options: Options, names: Sequence[str]) -> None:
        self._client, self._options = client, options
        self.informers = Informers(client, random.Random(options.seed))  # noqa: S311 - no secret
        self.components: list[Component] = [
            importlib.import_module(COMPONENTS[name]).build(client, self.informers, options) for name in names
        ]

    @property
    def idle(self) -> bool:
        """True if no component has work now. Timers do not count."""
        return all(component.idle for component in self.components)

    @property
    def names(self) -> list[str]:
        """The names of the components."""
        return [component.name for component in self.components]

    @property
    def busy(self) -> list[str]:
        """The names of the components with work now."""
        return [component.name for component in self.components if not component.idle]

    @property
    def next_timer(self) -> tuple[str, float] | None:
        """The component with the next timer and the seconds until it is due; None if only upkeep timers are left."""
        timers = [(due, component.name) for component in self.components if (due := component.due) is not None]
        if not timers:
            return None
        due, name = min(timers)
        # Read the clock last: a timer due "now" may be overdue by then.
        return name, max(0.0, due - asyncio.get_running_loop().time())

    async def get_pending_work(self) -> tuple[list[str], tuple[str, float] | None]:
        """Return `busy` and `next_timer`."""
        return self.busy, self.next_timer

    def metrics(self) -> list[Family]:
        """Return the metric families of the components."""
        return [family for component in self.components for family in component.metrics]

    async def metric_families(self) -> list[Family]:
        """Return `metrics`. Asynchronous because the components may run in a child process."""
        return self.metrics()

    async def run(self) -> None:
        """Run informers and components. The first failure ends all."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informers.run(), name="informers")
            for component in self.components:
                group.create_task(component.run(), name=component.name)

    async def restart(self) -> None:
        """Recreate the objects that components create at start, such as emulated nodes, after a store reset."""
        for component in self.components:
            again = getattr(component, "restart", None)
            if again is not None:
                await again()

    async def explain(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        """Explain a pod, claim, node or podgroup (`controllers.explain`). Raise LookupError if it does not exist."""
        from controllers.explain.claim_details import explain
        from controllers.explain.world import EXPLAINED_KINDS, World
        from controllers.scheduler.scheduler import Scheduler

        client = self._client.with_user_agent("explain")
        world = await World.read(client, self._options, EXPLAINED_KINDS, namespace=namespace)
        schedulers = (each for each in self.components if isinstance(each, Scheduler))
        queue = {uid: pod for each in schedulers for uid, pod in each.queue.pods.items()}
        # A thread keeps the loop responsive; nothing else uses this world.
        found = await asyncio.to_thread(explain, world, kind, namespace, name, queue)
        answer: dict[str, Any] = found.as_json()
        return answer

    async def wait_nodes(self) -> tuple[int, list[str]]:
        """Return the number of ready nodes once their slices are published, and warnings about them."""
        for component in self.components:
            wait = getattr(component, "wait_nodes", None)
            if wait is not None:
                found: tuple[int, list[str]] = await wait()
                return found
        return 0, []

    async def scheduling_attempts(self, uid: str) -> list[tuple[str, str, str]]:
        """Return the latest attempts to schedule a pod as (RFC 3339 time, result, text), oldest first."""
        from controllers.scheduler.scheduler import Scheduler

        schedulers = (each for each in self.components if isinstance(each, Scheduler))
        return [attempt for each in schedulers for attempt in each.attempts.of_pod(uid)]

    async def driver_calls(self) -> list[dict[str, Any]]:
        """Return the latest calls between this process's kubelet and its real drivers, oldest first."""
        return [call for component in self.components for call in getattr(component, "driver_calls", ())]

    async def wait_ready(self) -> None:
        """Wait until every served collection has been listed."""
        await self.informers.wait_answered()
