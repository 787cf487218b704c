"""The condition EvictionInProgress of DeviceTaintRules.

Written when a rule is added or changed, then at most every 10 seconds during eviction. Messages and reasons are
upstream's (pkg/controller/devicetainteviction).
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Final

from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.devicetaints.evictions import NO_EXECUTE, Evictions
from controllers.runtime.client import Client
from controllers.runtime.informer import Informer
from controllers.runtime.kinds import Kind
from controllers.runtime.times import go_time, parse_time

MANAGER: Final = "device-taint-eviction-controller"
CONDITION: Final = "EvictionInProgress"
PERIOD: Final = timedelta(seconds=10)
_ONCE: Final = (
    "if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger"
    " an update."
)


def _count(number: int, one: str, several: str) -> str:
    return f"1 {one}" if number == 1 else f"{number} {several}"


class RuleStatuses:
    """Writes the conditions of rules, and counts evicted pods per rule uid since the start."""

    def __init__(self, client: Client, kind: Kind, evictions: Evictions, rules: Informer, pods: Informer) -> None:
        self._client, self._kind = client, kind
        self._evictions, self._rules, self._pods = evictions, rules, pods
        self._evicted: Counter[str] = Counter()

    def count_eviction(self, uid: str) -> None:
        """Count a pod evicted because of the rule."""
        self._evicted[uid] += 1

    def remove(self, uid: str) -> None:
        """Drop the count of a deleted rule."""
        self._evicted.pop(uid, None)

    async def write(self, name: str, uid: str) -> timedelta | None:
        """Update the condition. Return the remaining delay if it may not be written yet."""
        rule = self._rules.get(name)
        if rule is None or rule["metadata"]["uid"] != uid:
            return None
        known: Json = next(
            (c for c in (rule.get("status") or {}).get("conditions") or () if c["type"] == CONDITION), {}
        )
        now = clock.now()
        if known and known.get("observedGeneration", 0) == rule["metadata"]["generation"]:
            rest = PERIOD - (now - parse_time(known["lastTransitionTime"]))
            if rest > timedelta():
                return rest
        condition = self.condition(rule)
        if any(known.get(field) != value for field, value in condition.items()):
            status = {"conditions": [{**condition, "lastTransitionTime": go_time(now)}]}
            body = {
                "apiVersion": self._kind.api_version,
                "kind": self._kind.kind,
                "metadata": {"name": name, "uid": uid},
                "status": status,
            }
            await self._client.patch(
                self._kind, name, body, type="apply", subresource="status", field_manager=MANAGER, force=True
            )
        return None

    def condition(self, rule: Json) -> Json:
        """Return the current condition without lastTransitionTime."""
        evicted = self._evicted[rule["metadata"]["uid"]]
        holds, reason, message = self._state(rule, evicted)
        if evicted:
            message = f"{message} {_count(evicted, 'pod', 'pods')} evicted since starting the controller.".lstrip()
        generation = rule["metadata"]["generation"]
        return {
            "type": CONDITION,
            "status": "True" if holds else "False",
            "observedGeneration": generation,
            "reason": reason,
            "message": message,
        }

    def _state(self, rule: Json, evicted: int) -> tuple[bool, str, str]:
        """Return whether evictions are pending, the reason and the message."""
        effect = rule["spec"]["taint"]["effect"]
        if effect == "None":
            published, allocated = self._evictions.count_selected(rule)
            pods, namespaces = self._pending(rule, self._evictions.simulate(rule))
            devices = (
                _count(published, "published device", "published devices"),
                _count(allocated, "allocated device", "allocated devices"),
            )
            would_go = (
                f"{_count(pods, 'pod', 'pods')} would be evicted in"
                f" {_count(namespaces, 'namespace', 'different namespaces')}"
            )
            return False, "NoEffect", f"{devices[0]} selected. {devices[1]} selected. {would_go} {_ONCE}"
        if effect != NO_EXECUTE:
            return False, "OtherEffect", "Eviction only happens for the NoExecute effect."
        pods, namespaces = self._pending(rule, self._evictions)
        if pods:
            where = _count(namespaces, "namespace", "different namespaces")
            return True, "PodsPendingEviction", f"{_count(pods, 'pod needs', 'pods need')} to be evicted in {where}."
        return False, "Completed" if evicted else "NotStarted", ""

    def _pending(self, rule: Json, evictions: Evictions) -> tuple[int, int]:
        """Count the pods yet to be evicted because of the rule, and their namespaces."""
        uid = rule["metadata"]["uid"]
        namespaces: list[str] = []
        for pod in self._pods.objects.values():
            if not pod["metadata"].get("deletionTimestamp"):
                eviction = evictions.of_pod(pod)
                if eviction is not None and any(rule_uid == uid for _, rule_uid in eviction.rules):
                    namespaces.append(pod["metadata"]["namespace"])
        return len(namespaces), len(set(namespaces))
