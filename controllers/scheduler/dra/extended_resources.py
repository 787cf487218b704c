"""Extended resources that devices serve.

A pod requests `example.com/gpu: 2`, a DeviceClass has that extendedResourceName. On a node without the resource itself
the request becomes a claim of the pod's own, the special claim. It is in memory until the pod is bound, then an object
with a generated name. Facts: Kubernetes 1.36, plugin dynamicresources (extended resources),
deviceclass/extendedresourcecache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from apiserver.api.helpers.pod_requests import amount, is_extended
from apiserver.api.objects import Json
from controllers.scheduler.state.pod_info import PodInfo

ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
IN_MEMORY: Final = "<extended-resources>"
"""The name of a special claim that is not written yet; no object can have it."""


class ClassNames:
    """The DeviceClasses by extended resource.

    A class serves its `spec.extendedResourceName`. The newest class wins, among equally old ones the first by name.
    Each class also serves its own name with a prefix.
    """

    def __init__(self) -> None:
        self._classes: dict[str, Json] = {}
        self._explicit: dict[str, str] = {}

    def get(self, resource: str) -> str | None:
        """Return the name of the class, if there is one."""
        name = self._explicit.get(resource)
        if name is None and resource.startswith(IMPLICIT_PREFIX):
            name = resource.removeprefix(IMPLICIT_PREFIX)
            return name if name in self._classes else None
        return name

    def upsert(self, device_class: Json) -> None:
        self._classes[device_class["metadata"]["name"]] = device_class
        self._choose()

    def remove(self, name: str) -> None:
        if self._classes.pop(name, None) is not None:
            self._choose()

    def _choose(self) -> None:
        """Rebuild the index of explicit names; a cluster has few classes, and they seldom change."""
        self._explicit = {}
        by_name = sorted(self._classes.items(), reverse=True)
        for name, item in sorted(by_name, key=lambda pair: pair[1]["metadata"].get("creationTimestamp") or ""):
            if resource := item["spec"].get("extendedResourceName"):
                self._explicit[resource] = name


def is_device_resource(name: str) -> bool:
    """Return whether devices may serve a resource of this name."""
    return name.startswith(IMPLICIT_PREFIX) or is_extended(name)


def special_claim(pod: Json, uid: str) -> Json:
    """Build the claim for a pod's extended resources, without requests. `uid` is a temporary one."""
    metadata = pod["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": IN_MEMORY,
            "namespace": metadata["namespace"],
            "uid": uid,
            "generateName": f"{metadata['name']}-extended-resources-",
            "annotations": {ANNOTATION: "true"},
            "ownerReferences": [owner],
        },
        "spec": {},
    }


def owner_of_special(claim: Json) -> str | None:
    """Return the uid of the pod for whose extended resources the claim was created; None for any other claim."""
    metadata = claim["metadata"]
    if (metadata.get("annotations") or {}).get(ANNOTATION) != "true":
        return None
    return next((owner["uid"] for owner in metadata.get("ownerReferences") or () if owner.get("controller")), None)


def containers_shape(pod: PodInfo) -> list[Any]:
    """Return what the requests of the special claim depend on."""
    spec = pod.spec
    groups = (spec.get("initContainers") or (), spec["containers"])
    return [[(c.get("restartPolicy"), (c.get("resources") or {}).get("requests")) for c in group] for group in groups]


class RequestBuilder:
    """A builder of device requests and their mappings to containers, for extended resources of a pod.

    Init containers that end share devices with later, lasting containers and with each other.
    """

    def __init__(self, pod: PodInfo, class_of: Callable[[str], str | None]) -> None:
        spec = pod.spec
        init = spec.get("initContainers") or []
        self._containers: list[Json] = [*init, *spec["containers"]]
        self._ends = [
            position < len(init) and container.get("restartPolicy") != "Always"
            for position, container in enumerate(self._containers)
        ]
        self._class_of = class_of
        self.requests: list[Json] = []
        self.mappings: list[Json] = []

    def add(self, resource: str) -> None:
        """Add one resource. Call it in the order of names, then `finish`."""
        lasting: dict[int, Json] = {}
        for position, ends in enumerate(self._ends):
            if not ends and (request := self._request(position, resource, 0)) is not None:
                lasting[position] = request
                self._map(position, resource, request["name"])
        biggest = self._ending(resource, lasting)
        self.requests += [*((biggest,) if biggest is not None else ()), *lasting.values()]

    def _ending(self, resource: str, lasting: Mapping[int, Json]) -> Json | None:
        """Map the init containers that end; return the request for their needs beyond the lasting containers."""
        more: list[tuple[int, Json]] = []
        mapped: list[tuple[int, str]] = []
        for position, ends in enumerate(self._ends):
            count = self._requested(position, resource) if ends else 0
            if not count:
                continue
            covered = 0
            for later, request in lasting.items():
                if later >= position and covered < count:
                    covered += request["exactly"]["count"]
                    mapped.append((position, request["name"]))
            request_of_own = self._request(position, resource, covered)
            if request_of_own is not None:
                more.append((position, request_of_own))
                mapped.append((position, request_of_own["name"]))
        if not more:
            biggest = None
        else:
            biggest = max((request for _, request in more), key=lambda request: request["exactly"]["count"])
        replaced = {request["name"] for _, request in more}
        for position, name in mapped:
            self._map(position, resource, biggest["name"] if biggest is not None and name in replaced else name)
        return biggest

    def _requested(self, position: int, resource: str) -> int:
        requests = (self._containers[position].get("resources") or {}).get("requests") or {}
        return amount(resource, requests[resource]) if resource in requests else 0

    def _request(self, position: int, resource: str, covered: int) -> Json | None:
        """Build the request for a container's need beyond the covered count."""
        missing = self._requested(position, resource) - covered
        if missing <= 0:
            return None
        names = sorted(self._containers[position]["resources"]["requests"])
        exactly = {"deviceClassName": self._class_of(resource), "allocationMode": "ExactCount", "count": missing}
        return {"name": f"container-{position}-request-{names.index(resource)}", "exactly": exactly}

    def _map(self, position: int, resource: str, request: str) -> None:
        name = self._containers[position]["name"]
        self.mappings.append({"containerName": name, "resourceName": resource, "requestName": request})

    def finish(self) -> None:
        self.requests.sort(key=lambda request: request["name"])
