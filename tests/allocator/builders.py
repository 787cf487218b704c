"""Objects and allocators for the allocator's tests. Its nodes and slices are of node-1 and of the driver `driver`."""

from __future__ import annotations

from collections.abc import Sequence
from pkgutil import resolve_name
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.allocator import Allocator, Features
from controllers.allocator.allocator import PodAllocator
from tests.allocator.worlds import KindEvaluator
from tests.support import objects

NODE: Json = {"metadata": {"name": "node-1", "labels": {"zone": "a"}}}


def device(name: str, kind: str = "a", numa: int | None = None, **fields: Any) -> Json:
    """Build a device of a kind. The selectors of tests read the kind."""
    attributes: Json = {"kind": {"string": kind}} | ({} if numa is None else {"numa": {"int": numa}})
    return {"name": name, "attributes": attributes, **fields}


def slice_of(name: str, *devices: Json, pool: str = "", generation: int = 1, count: int = 1, **spec: Any) -> Json:
    """Build a slice of node-1, unless `spec` selects other nodes, whose pool has its name by default."""
    made = objects.make_slice("node-1", devices, "driver", pool=pool or name)
    if {"allNodes", "nodeSelector", "nodeName"} & set(spec):
        del made["spec"]["nodeName"]
    made["spec"]["pool"] |= {"generation": generation, "resourceSliceCount": count}
    return {**made, "metadata": {"name": name}, "spec": {**made["spec"], **spec}}


def selectors(*expressions: str) -> list[Json]:
    return [{"cel": {"expression": expression}} for expression in expressions]


def device_class(name: str = "all", *expressions: str, config: Sequence[Json] = ()) -> Json:
    """Build a DeviceClass with these selectors."""
    return objects.make_device_class(name, selectors=selectors(*expressions), config=list(config))


def request(name: str, count: int = 1, *expressions: str, cls: str = "all", **fields: Any) -> Json:
    """Build a request for exactly so many devices."""
    return objects.make_request(name, count, device_class=cls, **fields, selectors=selectors(*expressions))


def make_claim(name: str, requests: Sequence[Json], constraints: Sequence[Json] = (), **devices: Any) -> Json:
    """Build a claim in namespace ns."""
    claim = objects.make_claim(name, requests=requests)
    claim["spec"]["devices"] |= {"constraints": list(constraints), **devices}
    return claim


def make_allocator(*slices: Json, features: Features | None = None) -> Allocator:
    """Build an allocator with the class `all` and these slices."""
    numbers = iter(range(10**6))
    allocator = Allocator(features, evaluator=KindEvaluator(), new_share_id=lambda: f"share-{next(numbers)}")
    allocator.inventory.upsert_class(device_class())
    for item in slices:
        allocator.inventory.upsert_slice(item)
    return allocator


def pod_with(allocator: Allocator, *requests: Json, constraints: Sequence[Json] = ()) -> PodAllocator:
    """Return the allocator for a pod with a claim with these requests, by default for one device."""
    return allocator.for_pod([make_claim("c", requests or [request("r")], constraints)])


def occupy(allocator: Allocator, claim: Json) -> Json:
    """Allocate a claim on node-1, record and return the allocation."""
    [result] = allocator.for_pod([claim]).allocate(NODE) or []
    allocator.allocated.upsert_claim({**claim, "status": {"allocation": result}})
    return result


def allocate(*slices: Json, requests: Sequence[Json] = (), **features: Any) -> Any:
    """Return the allocations on node-1 of a claim with these requests, by default for one device."""
    return pod_with(make_allocator(*slices, features=Features(**features)), *requests).allocate(NODE)


def devices_of(allocations: list[Json] | None) -> list[str] | None:
    """Return the devices of all claims as `pool/device`."""
    if allocations is None:
        return None
    return [f"{r['pool']}/{r['device']}" for a in allocations for r in a["devices"].get("results", ())]


def record_calls(monkeypatch: pytest.MonkeyPatch, path: str) -> list[tuple[Any, ...]]:
    """Record the arguments of the calls of a function, given by its dotted path."""
    original = resolve_name(path)
    calls: list[tuple[Any, ...]] = []

    def record(*arguments: Any) -> Any:
        calls.append(arguments)
        return original(*arguments)

    monkeypatch.setattr(path, record)
    return calls
