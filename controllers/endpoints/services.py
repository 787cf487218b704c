"""The pods of services: selection, ports, and trigger times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Final

from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import LabelSelector, from_labels
from controllers.runtime.informer import Informer
from controllers.runtime.kinds import key_of
from controllers.runtime.times import parse_time
from controllers.workloads.common.pod_states import is_deleted, is_ready, is_terminal, ready_condition

#: On Endpoints and slices: the time of the change that caused the write.
TRIGGER: Final = "endpoints.kubernetes.io/last-change-trigger-time"
#: On Endpoints and slices of services without a cluster IP.
HEADLESS: Final = "service.kubernetes.io/headless"


def selector_of(service: Json) -> LabelSelector | None:
    """Return a service's selector; None if its endpoints are managed elsewhere."""
    spec = service["spec"]
    if spec.get("type") == "ExternalName" or not spec.get("selector"):
        return None
    return from_labels(spec["selector"])


class ServicePods:
    """The pods of services. `changed` is called with the key of each service with changed endpoints."""

    def __init__(self, services: Informer, pods: Informer, changed: Callable[[str], None]) -> None:
        self._services, self._changed = services, changed
        namespace = lambda obj: (obj["metadata"]["namespace"],)  # noqa: E731
        self._pods_in, self._services_in = pods.index("namespace", namespace), services.index("namespace", namespace)
        pods.on(self._pod_changed, self._pod_updated, self._pod_changed)

    def of(self, service: Json) -> list[Json]:
        """Return the pods selected by a service, oldest first."""
        selector = selector_of(service)
        if selector is None:
            return []
        pods = self._pods_in.get(service["metadata"]["namespace"])
        found = (pod for pod in pods if selector.matches(pod["metadata"].get("labels")))
        return sorted(found, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))

    def _pod_changed(self, pod: Json) -> None:
        for service in self._services_in.get(pod["metadata"]["namespace"]):
            selector = selector_of(service)
            if selector is not None and selector.matches(pod["metadata"].get("labels")):
                self._changed(key_of(service))

    def _pod_updated(self, before: Json, pod: Json) -> None:
        if self._services_in.count(pod["metadata"]["namespace"]) and _endpoint_fields(before) != _endpoint_fields(pod):
            self._pod_changed(before)
            self._pod_changed(pod)


def _endpoint_fields(pod: Json) -> tuple[object, ...]:
    """Return the parts of a pod that affect endpoints."""
    spec, status = pod["spec"], pod.get("status") or {}
    labels = pod["metadata"].get("labels")
    name = spec.get("hostname"), spec.get("subdomain")
    return labels, name, is_deleted(pod), is_ready(pod), is_terminal(pod), status.get("podIPs"), spec.get("nodeName")


def has_endpoint(pod: Json, *, terminating: bool) -> bool:
    """Return whether a pod has an endpoint. Terminating pods count only with `terminating`."""
    status = pod.get("status") or {}
    has_address = bool(status.get("podIP") or status.get("podIPs"))
    return has_address and not is_terminal(pod) and (terminating or not is_deleted(pod))


def addresses(pod: Json, *, ipv6: bool) -> list[str]:
    """Return the pod's addresses of one family."""
    return [each["ip"] for each in (pod.get("status") or {}).get("podIPs") or () if (":" in each["ip"]) == ipv6]


def hostname(service: Json, pod: Json) -> str:
    """Return the pod's name in the service's domain; "" if it has none."""
    spec = pod["spec"]
    return str(spec.get("hostname") or "") if spec.get("subdomain") == service["metadata"]["name"] else ""


def target(pod: Json) -> Json:
    """Build the reference to a pod."""
    return {"kind": "Pod", **{name: pod["metadata"][name] for name in ("namespace", "name", "uid")}}


def has_address(service: Json) -> bool:
    return service["spec"].get("clusterIP") not in (None, "", "None")


def ports(service: Json, pod: Json) -> Iterator[tuple[Json, int]]:
    """Yield the service's ports with their numbers in a pod, without ports whose name the pod lacks."""
    for port in service["spec"].get("ports") or ():
        wanted = port.get("targetPort") or port["port"]
        number = wanted if isinstance(wanted, int) else _find_port(pod, wanted, port.get("protocol", "TCP"))
        if number is not None:
            yield port, number


def _find_port(pod: Json, name: str, protocol: str) -> int | None:
    spec = pod["spec"]
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    for container in [*spec["containers"], *sidecars]:
        for port in container.get("ports") or ():
            if port.get("name") == name and port.get("protocol", "TCP") == protocol:
                return int(port["containerPort"])
    return None


class TriggerTimes:
    """The earliest change of a service's endpoints since the last call, by service."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, datetime]] = {}

    def of(self, service: Json, pods: Iterable[Json]) -> str:
        """Return the time in the annotation's format; "" without a known change."""
        key, made = key_of(service), parse_time(service["metadata"]["creationTimestamp"])
        times = {"": made}
        for pod in pods:
            ready = ready_condition(pod)
            if ready is not None and ready.get("lastTransitionTime"):
                times[pod["metadata"]["name"]] = parse_time(ready["lastTransitionTime"])
        before = self._known.get(key)
        self._known[key] = times
        if before is None:
            return _text(made)
        changed = [time for name, time in times.items() if name not in before or time > before[name]]
        return _text(min(changed)) if changed else ""

    def remove(self, key: str) -> None:
        self._known.pop(key, None)


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
