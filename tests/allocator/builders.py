"""Objects for the allocator's tests: the least that the API would serve."""

from __future__ import annotations

from typing import Any

from controllers.allocator import Allocator, Features
from tests.allocator.worlds import KindEvaluator

Object = dict[str, Any]
NODE: Object = {"metadata": {"name": "node-1", "labels": {"zone": "a"}}}


def device(name: str, kind: str = "a", numa: int | None = None, **fields: Any) -> Object:
    """A device of a kind (what the test's selectors look at)."""
    attributes: Object = {"kind": {"string": kind}}
    if numa is not None:
        attributes["numa"] = {"int": numa}
    return {"name": name, "attributes": attributes, **fields}


def slice_of(
    name: str, *devices: Object, pool: str | None = None, generation: int = 1, count: int = 1, **spec: Any
) -> Object:
    """A slice, on node-1 unless it says otherwise; its pool has its name unless told."""
    place = {"name": pool or name, "generation": generation, "resourceSliceCount": count}
    where: Object = {} if {"allNodes", "nodeSelector", "nodeName"} & set(spec) else {"nodeName": "node-1"}
    content: Object = {"driver": "driver", "pool": place, **where, **spec}
    if devices:
        content["devices"] = list(devices)
    return {"metadata": {"name": name}, "spec": content}


def device_class(name: str = "all", *expressions: str, config: list[Object] | None = None) -> Object:
    """A DeviceClass with these selectors."""
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return {"metadata": {"name": name}, "spec": {"selectors": selectors, "config": config or []}}


def request(name: str, count: int = 1, *expressions: str, cls: str = "all", **fields: Any) -> Object:
    """A request for so many devices."""
    exactly: Object = {"deviceClassName": cls, "allocationMode": "ExactCount", "count": count, **fields}
    exactly["selectors"] = [{"cel": {"expression": expression}} for expression in expressions]
    return {"name": name, "exactly": exactly}


def make_claim(name: str, requests: list[Object], constraints: list[Object] | None = None, **devices: Any) -> Object:
    """A claim in namespace ns."""
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    spec = {"devices": {"requests": requests, "constraints": constraints or [], **devices}}
    return {"metadata": metadata, "spec": spec}


def make_allocator(*slices: Object, features: Features | None = None) -> Allocator:
    """An allocator with the class `all` and these slices."""
    numbers = iter(range(10**6))
    allocator = Allocator(features, evaluator=KindEvaluator(), new_share_id=lambda: f"share-{next(numbers)}")
    allocator.inventory.upsert_class(device_class())
    for item in slices:
        allocator.inventory.upsert_slice(item)
    return allocator


def allocate(*slices: Object, requests: list[Object] | None = None, **features: Any) -> Any:
    """What a claim with these requests, or for one device, gets on node-1."""
    allocator = make_allocator(*slices, features=Features(**features))
    return allocator.for_pod([make_claim("c", requests or [request("r")])]).allocate(NODE)


def picked(allocations: list[Object] | None) -> list[str] | None:
    """The devices of all claims as `pool/device`."""
    if allocations is None:
        return None
    return [f"{r['pool']}/{r['device']}" for a in allocations for r in a["devices"].get("results", ())]
