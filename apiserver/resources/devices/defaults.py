"""What is filled in where claims and slices say nothing (api.md 3)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from apiserver.registry.metadata import timestamp

__all__ = [
    "default_claim",
    "default_flat_claim",
    "default_flat_slice",
    "default_flat_template",
    "default_slice",
    "default_template",
]

Json = dict[str, Any]


def _request(request: Json) -> None:
    """One way to satisfy a request: exactly, an alternative, or a flat one."""
    if not request.get("allocationMode"):
        request["allocationMode"] = "ExactCount"
    if request["allocationMode"] == "ExactCount" and not request.get("count"):
        request["count"] = 1
    if request.get("tolerations"):
        _tolerations(request["tolerations"])


def _tolerations(tolerations: list[Json]) -> None:
    for toleration in tolerations:
        if not toleration.get("operator"):
            toleration["operator"] = "Equal"


def _spec(spec: Json) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        if request.get("exactly") is not None:
            _request(request["exactly"])
        for alternative in request.get("firstAvailable") or ():
            _request(alternative)


def _flat_spec(spec: Json) -> None:
    """v1beta1: the request itself has the fields, and defaults only when it names a class."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        if request.get("deviceClassName"):
            _request(request)
        elif request.get("tolerations"):
            _tolerations(request["tolerations"])
        for alternative in request.get("firstAvailable") or ():
            _request(alternative)


def _results(obj: Json) -> None:
    allocation = (obj.get("status") or {}).get("allocation")
    if allocation is not None:
        for result in (allocation.get("devices") or {}).get("results") or ():
            if result.get("tolerations"):
                _tolerations(result["tolerations"])


def default_claim(obj: Json, now: datetime) -> None:
    _spec(obj["spec"])
    _results(obj)


def default_flat_claim(obj: Json, now: datetime) -> None:
    _flat_spec(obj["spec"])
    _results(obj)


def default_template(obj: Json, now: datetime) -> None:
    _spec(obj["spec"].get("spec") or {})


def default_flat_template(obj: Json, now: datetime) -> None:
    _flat_spec(obj["spec"].get("spec") or {})


def _device(device: Json, now: datetime) -> None:
    for taint in device.get("taints") or ():
        if taint.get("timeAdded") is None:
            taint["timeAdded"] = timestamp(now)
    for mapping in (device.get("nodeAllocatableResourceMappings") or {}).values():
        if mapping.get("allocationMultiplier") is None:
            mapping["allocationMultiplier"] = "1"


def default_slice(obj: Json, now: datetime) -> None:
    for device in obj["spec"].get("devices") or ():
        _device(device, now)


def default_flat_slice(obj: Json, now: datetime) -> None:
    for device in obj["spec"].get("devices") or ():
        if device.get("basic") is not None:
            _device(device["basic"], now)
