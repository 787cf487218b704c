"""The client methods for a node that goes: kill, start again, cordon, drain."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Protocol

from kubedra.client.clock import ClockMethods, RealTimeError
from kubedra.client.nodes import EMULATED
from kubedra.client.paths import field_selector, join_path
from kubedra.client.responses import ApiError
from kubedra.client.steps import Pause, Steps
from kubedra.client.waiting import default_timeout
from kubedra.runtime.objects import Json

#: pytest hides this module's frames in the reports of failing tests.
__tracebackhide__ = True
#: Seconds between two attempts; of virtual time, a limit.
_POLL = 0.05
_STEP = timedelta(seconds=5)
_MIRROR = "kubernetes.io/config.mirror"


class Evictor(Protocol):
    """The client methods that a drain uses."""

    def request(
        self, method: str, path: str, body: Any = None, *, params: Mapping[str, str] | None = None
    ) -> Steps[Json]: ...

    def patch(self, target: str, patch: Json) -> Steps[Json]: ...


class NodeMethods:
    """The part of `Methods` about nodes."""

    def kill_node(self: Evictor, name: str) -> Steps[Json]:
        """Kill the kubelet of an emulated node, as a power failure would. Its Node, pods and slices stay as they are.

        Its lease is no longer renewed, so after 40 s the node gets NotReady and its pods are evicted 5 minutes later.
        """
        return (yield from self.patch(f"node/{name}", {"metadata": {"annotations": {EMULATED: None}}}))

    def start_node(self: Evictor, name: str) -> Steps[Json]:
        """Start the kubelet of an emulated node after `kill_node`."""
        return (yield from self.patch(f"node/{name}", {"metadata": {"annotations": {EMULATED: "true"}}}))

    def cordon(self: Evictor, name: str) -> Steps[Json]:
        """Mark a node unschedulable."""
        return (yield from self.patch(f"node/{name}", {"spec": {"unschedulable": True}}))

    def uncordon(self: Evictor, name: str) -> Steps[Json]:
        """Mark a node schedulable."""
        return (yield from self.patch(f"node/{name}", {"spec": {"unschedulable": None}}))

    def drain(
        self: Evictor,
        name: str,
        *,
        timeout: float | None = None,
        grace_period: int | None = None,
        virtual: bool = False,
    ) -> Steps[list[Json]]:
        """Cordon a node, evict its pods and wait until they are gone. Return the evicted pods.

        Pods of DaemonSets and static pods stay, as with `kubectl drain --ignore-daemonsets`. Evictions that a
        PodDisruptionBudget rejects are repeated. `timeout` is in seconds, by default 30 or `$KUBEDRA_WAIT_TIMEOUT`;
        with `virtual`, virtual time advances during the wait. Raises TimeoutError naming the pods that are left.
        """
        timeout = default_timeout(30) if timeout is None else timeout
        return (yield from _drain(self, name, timeout=timeout, grace_period=grace_period, virtual=virtual))


def _drain(
    methods: Evictor, name: str, *, timeout: float, grace_period: int | None, virtual: bool
) -> Steps[list[Json]]:
    yield from methods.patch(f"node/{name}", {"spec": {"unschedulable": True}})
    pods = yield from _list_pods(methods, name)
    evicted, left, refused = {pod["metadata"]["uid"] for pod in pods}, pods, ""
    clock, begin = ClockMethods(), (yield from _now(virtual))
    while left:
        for pod in left:
            if "deletionTimestamp" not in pod["metadata"]:
                refused = (yield from _evict(methods, pod["metadata"], grace_period)) or refused
        left = [pod for pod in (yield from _list_pods(methods, name)) if pod["metadata"]["uid"] in evicted]
        if not left:
            break
        spent = (yield from _now(virtual)) - begin
        if spent >= timeout:
            names = ", ".join(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in left[:5])
            reason = f": {refused}" if refused else ""
            raise TimeoutError(f"node/{name} was not drained within {timeout:g} s; left are pods {names}{reason}")
        if virtual:
            yield from clock.step(min(_STEP, timedelta(seconds=timeout - spent)))
        else:
            yield Pause(_POLL)
    return pods


def _now(virtual: bool) -> Steps[float]:
    """Return the time in seconds that the timeout is measured in."""
    if not virtual:
        return time.monotonic()
    try:
        return (yield from ClockMethods().now()).timestamp()
    except RealTimeError:
        raise ValueError("virtual=True needs a control plane in virtual time") from None


def _list_pods(methods: Evictor, node: str) -> Steps[list[Json]]:
    """Return the pods of a node except those of DaemonSets and static pods."""
    params = {"fieldSelector": field_selector({"spec.nodeName": node})}
    listing = yield from methods.request("GET", "/api/v1/pods", params=params)
    return [pod for pod in listing.get("items") or () if not _is_kept(pod["metadata"])]


def _is_kept(meta: Json) -> bool:
    owners = meta.get("ownerReferences") or ()
    return _MIRROR in (meta.get("annotations") or ()) or any(
        owner.get("controller") and owner["kind"] == "DaemonSet" for owner in owners
    )


def _evict(methods: Evictor, meta: Json, grace_period: int | None) -> Steps[str]:
    """Evict a pod. Return why it cannot be evicted now, or ""."""
    options = {} if grace_period is None else {"deleteOptions": {"gracePeriodSeconds": grace_period}}
    names = {"name": meta["name"], "namespace": meta["namespace"]}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": names, **options}
    path = join_path("api", "v1", "namespaces", meta["namespace"], "pods", meta["name"], "eviction")
    try:
        yield from methods.request("POST", path, body)
    except ApiError as error:
        if error.code == 429:
            return error.message
        if error.code != 404:
            raise
    return ""
