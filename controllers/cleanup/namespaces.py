"""Namespace deletion: deletes the content of a terminating namespace, pods first, then removes its finalizer.

Remaining content is reported in the namespace's conditions. Facts: upstream's pkg/controller/namespace. Two
differences: the deletion starts immediately instead of after five seconds, and it is retried every second.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.discovery import served_kinds
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import NAMESPACES, PODS, Kind
from controllers.runtime.times import go_time
from controllers.runtime.workqueue import RetryDelays

NAME = "namespace-controller"
_FINALIZER = "kubernetes"
_RETRY = timedelta(seconds=1)
_RETRY_DELAYS: Final = RetryDelays(timedelta(milliseconds=5), timedelta(minutes=1))

#: The conditions of a terminating namespace, with reason and message without problems.
_HEALTHY: Final = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions", "All legacy kube types successfully parsed"
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted", "All content successfully deleted, may be waiting on finalization"
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}  # fmt: skip


@dataclass(slots=True)
class Findings:
    """The result of one pass over a namespace: errors, and remaining objects by kind and by finalizer."""

    failures: list[str] = field(default_factory=list)
    kinds: dict[str, int] = field(default_factory=dict)
    finalizers: dict[str, int] = field(default_factory=dict)

    def add_remaining(self, kind: Kind, objects: list[Json]) -> None:
        self.kinds[f"{kind.plural}.{kind.group}"] = len(objects)
        for obj in objects:
            for name in obj["metadata"].get("finalizers") or ():
                self.finalizers[name] = self.finalizers.get(name, 0) + 1

    def _problems(self) -> dict[str, tuple[str, str]]:
        """Return reason and message of each true condition."""
        found = {}
        if self.failures:
            texts = ", ".join(sorted(self.failures))
            found["NamespaceDeletionContentFailure"] = (
                "ContentDeletionFailed",
                f"Failed to delete all resource types, {len(self.failures)} remaining: {texts}",
            )
        if self.kinds:
            texts = ", ".join(sorted(f"{kind} has {count} resource instances" for kind, count in self.kinds.items()))
            found["NamespaceContentRemaining"] = ("SomeResourcesRemain", f"Some resources are remaining: {texts}")
        if self.finalizers:
            texts = ", ".join(
                sorted(f"{name} in {count} resource instances" for name, count in self.finalizers.items())
            )
            found["NamespaceFinalizersRemaining"] = (
                "SomeFinalizersRemain",
                f"Some content in the namespace has finalizers remaining: {texts}",
            )
        return found

    def conditions(self, before: Iterable[Json], now: str) -> list[Json]:
        """Merge the conditions of this controller into those of the namespace, in place."""
        problems = self._problems()
        made = {condition["type"]: condition for condition in before}
        for kind, healthy in _HEALTHY.items():
            reason, message = problems.get(kind, healthy)
            status, known = "True" if kind in problems else "False", made.get(kind, {})
            time = known["lastTransitionTime"] if known.get("status") == status else now
            made[kind] = {
                "type": kind, "status": status, "lastTransitionTime": time, "reason": reason, "message": message,
            }  # fmt: skip
        return list(made.values())


def build(client: Client, informers: Informers, options: Options) -> Namespaces:
    """Build the component for the manager."""
    return Namespaces(client, informers, options)


class Namespaces(ControllerComponent):
    """The namespace controller. Keys are names of namespaces."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        self._client = client.for_controller("namespace-controller")
        self._namespaces = informers.of(NAMESPACES)
        self._controller = Controller(NAME, self.reconcile, workers=options.workers(NAME), retry_delays=_RETRY_DELAYS)
        self._controller.follow(self._namespaces)

    async def reconcile(self, name: str) -> timedelta | None:
        namespace = self._namespaces.get(name)
        if namespace is None or not namespace["metadata"].get("deletionTimestamp"):
            return None
        if _FINALIZER not in (namespace.get("spec", {}).get("finalizers") or ()):
            return None
        findings = Findings()
        if not await self._delete_all(PODS, namespace, findings):
            findings = Findings(findings.failures)  # contents are not reported before the pods are gone
            await self._report(namespace, findings)
            return _RETRY
        done = [await self._delete_all(kind, namespace, findings) for kind in await self._list_kinds() if kind != PODS]
        namespace = await self._report(namespace, findings)
        if not all(done):
            return _RETRY
        await self._finalize(namespace)
        return None

    async def _list_kinds(self) -> list[Kind]:
        """List the namespaced kinds that can be listed and deleted. Events count once."""
        kinds = await served_kinds(self._client, verbs=("list", "deletecollection"))
        return [kind for kind in kinds if kind.namespaced and kind.group != "events.k8s.io"]

    async def _delete_all(self, kind: Kind, namespace: Json, findings: Findings) -> bool:
        """Delete a kind's objects. Return whether none remains."""
        name = namespace["metadata"]["name"]
        try:
            if not (await self._client.list(kind, name, limit=1)).get("items"):
                return True
            await self._client.delete_collection(kind, name, propagation="Background")
            remaining = (await self._client.list(kind, name)).get("items") or []
        except StatusError as error:
            findings.failures.append(str(error))
            return False
        if not remaining:
            return True
        findings.add_remaining(kind, remaining)
        if not any(obj["metadata"].get("finalizers") or obj["metadata"].get("deletionTimestamp") for obj in remaining):
            version = f"{kind.group}/{kind.version}"
            findings.failures.append(
                f"unexpected items still remain in namespace: {name} for gvr: {version}, Resource={kind.plural}"
            )
        return False

    async def _report(self, namespace: Json, findings: Findings) -> Json:
        """Write the conditions. Return the updated namespace."""
        status = namespace.get("status") or {}
        conditions = findings.conditions(status.get("conditions") or (), go_time(clock.now()))
        if conditions == status.get("conditions"):
            return namespace
        body = {**namespace, "status": {**status, "conditions": conditions}}
        try:
            return await self._client.update_status(NAMESPACES, body)
        except Exception as error:
            if not is_reason(error, "NotFound", "Conflict"):
                raise
            return namespace

    async def _finalize(self, namespace: Json) -> None:
        finalizers = [name for name in namespace["spec"]["finalizers"] if name != _FINALIZER]
        body = {**namespace, "spec": {**namespace["spec"], "finalizers": finalizers}}
        try:
            await self._client.update(NAMESPACES, body, "finalize")
        except Exception as error:
            if not is_reason(error, "NotFound"):
                raise
