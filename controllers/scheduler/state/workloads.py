"""Objects about pods: services, controllers, disruption budgets."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import orjson

from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import LabelSelector, SelectorError, from_labels, from_object
from controllers.resourceclaims.pods import controller_of
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import (
    DISRUPTION_BUDGETS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
)
from controllers.scheduler.state.pod_info import PodInfo

#: The maximum number of cached selectors.
_SELECTORS: Final = 256


class Workloads:
    """Services, the controllers that pod spreading considers, and disruption budgets."""

    def __init__(self, informers: Informers) -> None:
        self._services, self._budgets = informers.of(SERVICES), informers.of(DISRUPTION_BUDGETS)
        kinds = (REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFUL_SETS)
        self._controllers = {(kind.api_version, kind.kind): informers.of(kind) for kind in kinds}
        #: Selectors by the JSON of their sources: pods of one workload share them.
        self._selectors: dict[bytes, LabelSelector | None] = {}
        self._services_of = self._services.index("namespace", lambda service: (service["metadata"]["namespace"],))

    async def wait_read(self) -> None:
        """Wait until the collections have synced or are known not to be served."""
        for informer in (self._services, self._budgets, *self._controllers.values()):
            await informer.wait_answered()

    def selector_of(self, pod: PodInfo) -> LabelSelector | None:
        """Return the selector for the pods that belong together with this one; None without one.

        It combines the services that select the pod and its controller.
        """
        labels = pod.labels
        service_labels: dict[str, str] = {}
        for service in self._services_of.get(pod.namespace) if labels else ():
            selector = service["spec"].get("selector")
            if selector and all(labels.get(key) == value for key, value in selector.items()):
                service_labels |= selector
        kind, selector = self._controller_selector(pod)
        text = orjson.dumps((kind, service_labels, selector))
        if text not in self._selectors:
            if len(self._selectors) >= _SELECTORS:
                self._selectors.clear()
            self._selectors[text] = _combine_selectors(kind, service_labels, selector)
        return self._selectors[text]

    def _controller_selector(self, pod: PodInfo) -> tuple[str, Json]:
        """Return kind and selector of the pod's controller; a ReplicationController has plain labels."""
        owner = controller_of(pod.pod)
        informer = self._controllers.get((owner["apiVersion"], owner["kind"])) if owner is not None else None
        if owner is None or informer is None:
            return "", {}
        controller = informer.get(f"{pod.namespace}/{owner['name']}")
        return owner["kind"], (controller["spec"].get("selector") if controller is not None else None) or {}

    def disruption_budgets(self) -> Sequence[Json]:
        return list(self._budgets.objects.values())


def _combine_selectors(kind: str, service_labels: dict[str, str], selector: Json) -> LabelSelector | None:
    """Combine the labels of services and the selector of a controller."""
    if kind == "ReplicationController":
        return from_labels({**service_labels, **selector}) if service_labels or selector else None
    requirements = from_labels(service_labels).requirements
    with suppress(SelectorError):
        requirements = (*requirements, *from_object(selector).requirements)
    return LabelSelector(requirements) if requirements else None
