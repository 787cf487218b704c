"""Convert v1beta1 to and from the hub (pkg/apis/resource/v1beta1).

In v1beta1, requests are flat, and a device has its properties under `basic`.
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.objects import Json

__all__ = ["claim_from_hub", "claim_to_hub", "slice_from_hub", "slice_to_hub", "template_from_hub", "template_to_hub"]


_EXACT: Final = ("deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity")
#: The flat fields in v1beta1's order.
_FLAT: Final = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "firstAvailable",
    "tolerations",
    "capacity",
)
_PLAIN: Final = ("nodeName", "allNodes")


def _request_to_hub(request: Json) -> Json:
    exactly = {name: request[name] for name in _EXACT if name in request and request[name] != ""}
    hub: Json = {"name": request.get("name", "")}
    if exactly:
        # Any of these fields, even an empty list, makes an exact request. Upstream's conversion drops empty
        # tolerations.
        if not exactly.get("tolerations", True):
            del exactly["tolerations"]
        hub["exactly"] = {"deviceClassName": "", **exactly}
    if "firstAvailable" in request:
        hub["firstAvailable"] = request["firstAvailable"]
    return hub


def _request_from_hub(request: Json) -> Json:
    fields = {"deviceClassName": "", **(request.get("exactly") or {})}
    if "firstAvailable" in request:
        fields["firstAvailable"] = request["firstAvailable"]
    return {"name": request.get("name", ""), **{name: fields[name] for name in _FLAT if name in fields}}


def _convert_requests(spec: Json | None, convert: Any) -> None:
    devices = (spec or {}).get("devices")
    if devices and devices.get("requests"):
        devices["requests"] = [convert(request) for request in devices["requests"]]


def claim_to_hub(obj: Json) -> Json:
    _convert_requests(obj.get("spec"), _request_to_hub)
    return obj


def claim_from_hub(obj: Json) -> Json:
    _convert_requests(obj.get("spec"), _request_from_hub)
    return obj


def template_to_hub(obj: Json) -> Json:
    _convert_requests((obj.get("spec") or {}).get("spec"), _request_to_hub)
    return obj


def template_from_hub(obj: Json) -> Json:
    _convert_requests((obj.get("spec") or {}).get("spec"), _request_from_hub)
    return obj


def _device_to_hub(device: Json) -> Json:
    return {"name": device.get("name", ""), **(device.get("basic") or {})}


def _device_from_hub(device: Json) -> Json:
    return {"name": device.get("name", ""), "basic": {name: value for name, value in device.items() if name != "name"}}


def slice_to_hub(obj: Json) -> Json:
    spec = obj.get("spec") or {}
    if spec.get("devices"):
        spec["devices"] = [_device_to_hub(device) for device in spec["devices"]]
    return obj


def slice_from_hub(obj: Json) -> Json:
    spec = obj.get("spec") or {}
    for name in _PLAIN:
        if not spec.get(name):
            spec.pop(name, None)
    if spec.get("devices"):
        spec["devices"] = [_device_from_hub(device) for device in spec["devices"]]
    return obj
