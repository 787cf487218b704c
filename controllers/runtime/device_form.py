"""Objects of resource.k8s.io in v1, for servers that serve only v1beta1.

Components read and write the form of v1. v1beta2 has the same form; in v1beta1, requests are flat, and a device has its
properties under `basic`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from apiserver.api.helpers import flat_devices
from apiserver.api.objects import Json

#: The versions of resource.k8s.io that components can use, the best first.
VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
_FLAT: Final = "v1beta1"
Convert = Callable[[Json], Json]
#: From v1beta1 and to v1beta1, by kind. Other kinds have one form.
_CONVERSIONS: Final[Mapping[str, tuple[Convert, Convert]]] = {
    "ResourceClaim": (flat_devices.claim_to_hub, flat_devices.claim_from_hub),
    "ResourceClaimTemplate": (flat_devices.template_to_hub, flat_devices.template_from_hub),
    "ResourceSlice": (flat_devices.slice_to_hub, flat_devices.slice_from_hub),
}


def reader(kind: str, version: str) -> Convert | None:
    """Return the conversion of a kind's objects from a served version; None if the form is that of v1."""
    found = _CONVERSIONS.get(kind) if version == _FLAT else None
    return None if found is None else lambda obj: found[0](_copy(obj))


def writer(kind: str, version: str) -> Convert | None:
    """Return the conversion of a kind's objects to a served version; None if the form is that of v1."""
    found = _CONVERSIONS.get(kind) if version == _FLAT else None
    return None if found is None else lambda obj: found[1](_copy(obj))


def _copy(obj: Json) -> Json:
    """Copy the parts that conversions replace. The object may belong to the server."""
    if "spec" not in obj:
        return dict(obj)
    return {**obj, "spec": _copy_spec(obj["spec"])}


def _copy_spec(spec: Json) -> Json:
    copied = dict(spec)
    if isinstance(spec.get("devices"), dict):
        copied["devices"] = dict(spec["devices"])
    if "spec" in spec:
        copied["spec"] = _copy_spec(spec["spec"])
    return copied
