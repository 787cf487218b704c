"""Device taint eviction: deletes pods with devices whose NoExecute taints they do not tolerate.

`evictions` computes from events which pods to evict, and when. Queue keys are hints to act on it: `pod:UID:NS/NAME` and
`rule:UID:NAME`. Before eviction the pod is read from the server. It gets an event and the condition DisruptionTarget,
then it is deleted. `rule_status` reports the progress in the status of DeviceTaintRules.

Facts: upstream's pkg/controller/devicetainteviction. Differs: initial objects are processed slices first and pods last,
so that no eviction is cancelled that was never due; unserved rules are not waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from apiserver.api.objects import Json
from apiserver.runtime import clock
from apiserver.runtime.metrics import Counter, Family, Histogram
from controllers.devicetaints.evictions import Eviction, Evictions
from controllers.devicetaints.rule_status import PERIOD, RuleStatuses
from controllers.options.options import Options
from controllers.resourceclaims.generated_claims import RecentObjects
from controllers.resourceclaims.pods import claim_names, group_key, is_for_any_pod, pod_statuses_equal
from controllers.runtime.client import Client, is_reason
from controllers.runtime.conditions import condition_patch
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import (
    DEVICE_TAINT_RULES,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    key_of,
    split_key,
)
from controllers.runtime.times import go_time

NAME = "device-taint-eviction-controller"
GATE = "DRADeviceTaints"
RULES_GATE = "DRADeviceTaintRules"
GROUPS_GATE = "DRAWorkloadResourceClaims"
_REASON = "DeviceTaintManagerEviction"
_CONDITION = {
    "type": "DisruptionTarget", "status": "True", "reason": "DeletionByDeviceTaintManager",
    "message": "Device Taint manager: deleting due to NoExecute taint", "lastProbeTime": None,
}  # fmt: skip
_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)


def build(client: Client, informers: Informers, options: Options) -> DeviceTaintEviction:
    """Build the component."""
    return DeviceTaintEviction(client, informers, options)


class DeviceTaintEviction(ControllerComponent):
    """Evicts pods. Inactive without the gate DRADeviceTaints; rules need the gate DRADeviceTaintRules, too."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        features = options.features
        # Upstream's field manager is the program, not the controller.
        self._client, self._enabled = client.for_controller(NAME), features.enabled(GATE)
        self._with_groups = features.enabled(GROUPS_GATE)
        self._recorder = CoreEventRecorder(self._client, NAME)
        self._for_workloads = features.enabled("DRAReservedForWorkloads")
        self._evictions = Evictions(self._with_groups, self._for_workloads)
        self._due: dict[str, Eviction] = {}
        self._evicted = RecentObjects(500)
        self._controller = Controller(NAME, self.reconcile, workers=options.workers(NAME))
        self._deletions = Counter(
            "device_taint_eviction_controller_pod_deletions_total", "Pods deleted because of device taints."
        )
        name = "device_taint_eviction_controller_pod_deletion_duration_seconds"
        self._latencies = Histogram(
            name, "Time from the effective time of a taint to the deletion of the pod, in seconds.", (), _BUCKETS
        )
        if self._enabled:
            self._pods, self._claims, self._slices = (
                informers.of(kind) for kind in (PODS, RESOURCE_CLAIMS, RESOURCE_SLICES)
            )
            self._pods_of_claim = self._pods.index(
                "claims", lambda pod: (f"{pod['metadata']['namespace']}/{name}" for name in claim_names(pod))
            )
            self._members = self._pods.index("group", lambda pod: (key,) if (key := group_key(pod)) else ())
            self._rules, self._statuses = None, None
            if features.enabled(RULES_GATE):
                kind = client.at(DEVICE_TAINT_RULES)
                self._rules = informers.of(kind)
                self._statuses = RuleStatuses(self._client, kind, self._evictions, self._rules, self._pods)

    @property
    def metrics(self) -> Sequence[Family]:
        return (*self._controller.metrics, self._deletions, self._latencies)

    async def run(self) -> None:
        if not self._enabled:
            await asyncio.Event().wait()
        for informer in (self._pods, self._claims, self._slices):
            await informer.wait_synced()
        if self._rules is not None:
            await self._rules.wait_answered()
        self._follow()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            group.create_task(self._controller.run())

    def _follow(self) -> None:
        self._slices.on(lambda item: self._slice(None, item), self._slice, lambda item: self._slice(item, None))
        if self._rules is not None:
            self._rules.on(lambda rule: self._rule(None, rule), self._rule, lambda rule: self._rule(rule, None))
        self._claims.on(lambda claim: self._claim(None, claim), self._claim, lambda claim: self._claim(claim, None))
        self._pods.on(self._pod_added, self._pod_updated, self._pod_deleted)

    # Event handlers

    @property
    def _is_idle(self) -> bool:
        """True if no claim requires eviction and no eviction is pending: no pod needs a check."""
        return self._evictions.is_empty and not self._due

    def _slice(self, old: Json | None, new: Json | None) -> None:
        for claim in self._evictions.set_slice(old, new):
            self._check_users(claim)

    def _rule(self, old: Json | None, new: Json | None) -> None:
        if old is not None and new is not None and old["spec"] == new["spec"]:
            return
        if new is not None:
            # Report pending evictions before evicting the first pod.
            self._enqueue_rule(new["metadata"]["name"], new["metadata"]["uid"], timedelta())
        elif old is not None and self._statuses is not None:
            self._statuses.remove(old["metadata"]["uid"])
        for claim in self._evictions.set_rule(old, new):
            self._check_users(claim)

    def _claim(self, old: Json | None, new: Json | None) -> None:
        claim = new or old
        assert claim is not None, "a change has a before or an after"
        self._evictions.set_claim(key_of(claim), new)
        if self._is_idle:
            return
        if old is not None and (_users(old) != _users(claim) or is_for_any_pod(old) != is_for_any_pod(claim)):
            self._check_users(old)
        self._check_users(claim)

    def _pod_added(self, pod: Json) -> None:
        # A restored snapshot brings back pods that were evicted.
        self._evicted.pop(pod["metadata"]["uid"], None)
        self._check(pod)

    def _pod_updated(self, old: Json, pod: Json) -> None:
        if self._is_idle:
            return
        names = [(item.get("status") or {}).get("resourceClaimStatuses") for item in (old, pod)]
        if old["spec"].get("nodeName") != pod["spec"].get("nodeName") or not pod_statuses_equal(*names):
            self._check(pod)

    def _pod_deleted(self, pod: Json) -> None:
        self._due.pop(_pod_item(pod), None)

    def _check_users(self, claim: Json) -> None:
        if self._for_workloads and is_for_any_pod(claim):
            for consumer in self._pods_of_claim.get(key_of(claim)):
                self._check(consumer)
            return
        namespace = claim["metadata"]["namespace"]
        for user in _users(claim):
            key, kind = f"{namespace}/{user['name']}", (user.get("apiGroup", ""), user["resource"])
            if kind == ("", PODS.plural):
                pod = self._pods.get(key)
                if pod is not None and pod["metadata"]["uid"] == user["uid"]:
                    self._check(pod)
            elif self._with_groups and kind == (POD_GROUPS.group, POD_GROUPS.plural):
                for pod in self._members.get(key):
                    self._check(pod)

    def _check(self, pod: Json) -> None:
        if self._is_idle:
            return
        item, eviction = _pod_item(pod), self._evictions.of_pod(pod)
        if eviction is None:
            if self._due.pop(item, None) is not None:
                self._recorder.record(_event_subject(pod), "Normal", _REASON, "Cancelling deletion")
            return
        self._due[item] = eviction
        self._controller.queue.add_after(item, eviction.when - clock.now())
        self._enqueue_rules(eviction)

    def _enqueue_rules(self, eviction: Eviction) -> None:
        """Update the rules of an eviction after a delay that collects further changes."""
        for name, uid in eviction.rules:
            self._enqueue_rule(name, uid, PERIOD)

    def _enqueue_rule(self, rule: str, uid: str, delay: timedelta) -> None:
        if self._statuses is not None:
            self._controller.queue.add_after(f"rule:{uid}:{rule}", delay)

    # Reconciling

    async def reconcile(self, item: str) -> timedelta | None:
        kind, uid, key = item.split(":", 2)
        if kind == "rule":
            return await self._statuses.write(key, uid) if self._statuses is not None else None
        eviction = self._due.get(item)
        if eviction is None or uid in self._evicted:
            return None
        wait = eviction.when - clock.now()
        if wait > timedelta():
            return wait
        try:
            evicted = await self._evict(key, uid)
        except Exception as error:
            if not is_reason(error, "NotFound"):
                raise
            evicted = False
        self._due.pop(item, None)
        self._evicted.put(uid, {})
        if evicted:
            self._deletions.inc()
            self._latencies.observe((clock.now() - eviction.when).total_seconds())
            for _, rule in eviction.rules:
                if self._statuses is not None:
                    self._statuses.count_eviction(rule)
            self._enqueue_rules(eviction)
        return None

    async def _evict(self, key: str, uid: str) -> bool:
        """Delete a pod unless it is being deleted. Return False if it was replaced."""
        namespace, name = split_key(key)
        pod = await self._client.get(PODS, name, namespace)
        if pod["metadata"]["uid"] != uid:
            return False
        if pod["metadata"].get("deletionTimestamp"):
            return True
        self._recorder.record(_event_subject(pod), "Normal", _REASON, "Marking for deletion")
        status = condition_patch(pod, {**_CONDITION, "lastTransitionTime": go_time(clock.now())})
        if status:
            body = {"metadata": {"uid": uid}, "status": status}
            await self._client.patch(PODS, name, body, namespace, subresource="status", parse=False)
        await self._client.delete(PODS, name, namespace, uid=uid, parse=False)
        return True


def _pod_item(pod: Json) -> str:
    return f"pod:{pod['metadata']['uid']}:{key_of(pod)}"


def _event_subject(pod: Json) -> Json:
    """Return the pod reference for events, without resourceVersion."""
    metadata = {name: pod["metadata"][name] for name in ("namespace", "name", "uid")}
    return {"apiVersion": PODS.api_version, "kind": PODS.kind, "metadata": metadata}


def _users(claim: Json) -> list[Json]:
    return (claim.get("status") or {}).get("reservedFor") or []
