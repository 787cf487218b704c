"""Fill in the v1 defaults of pods. Facts: pkg/apis/core/v1/defaults.go."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from apiserver.api.objects import Json
from apiserver.api.values.quantity import Quantity
from apiserver.resources.common.resource_names import is_hugepage, is_overcommit_allowed

__all__ = [
    "containers",
    "default",
    "default_claim_spec",
    "default_pod_spec",
    "round_amounts",
    "round_resources",
    "spec_to_hub",
    "to_hub",
]


_POD_LEVEL: Final = frozenset({"cpu", "memory"})


def containers(spec: Json, *, ephemeral: bool = True) -> Iterator[Json]:
    """Return all containers: init, regular, ephemeral."""
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()
    if ephemeral:
        yield from spec.get("ephemeralContainers") or ()


# Path components of an image name are lower case. The registry's host may be anything with a dot, a colon, or
# "localhost".
_COMPONENT: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_IMAGE: Final = re.compile(
    rf"(?:(?:[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?)*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?/)?"
    rf"{_COMPONENT}(?:/{_COMPONENT})*(?::(?P<tag>[\w][\w.-]{{0,127}}))?(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{{32,}})?",
    re.ASCII,
)

#: An image identifier is not an image name.
_IDENTIFIER: Final = re.compile(r"[0-9a-f]{64}")


def pull_policy(image: str) -> str:
    """Return the default pull policy: Always for :latest, explicit or implied. Invalid names imply no tag."""
    match = _IMAGE.fullmatch(image)
    if match is None or _IDENTIFIER.fullmatch(image):
        return "IfNotPresent"
    tag = match["tag"] or ("" if match["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def default(obj: Json, now: datetime) -> None:
    spec = obj["spec"]
    for container in containers(spec, ephemeral=False):
        _requests_from_limits(container.get("resources"))
    if spec.get("resources"):
        _pod_level_resources(spec)
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for container in containers(spec, ephemeral=False):
            for port in container.get("ports") or ():
                if not port.get("hostPort"):
                    port["hostPort"] = port.get("containerPort", 0)
    default_pod_spec(spec)


def to_hub(obj: Json) -> Json:
    """Copy duplicate fields to each other: the legacy service account name and the first pod address.

    A negative grace period becomes 1 s in pods, but not in templates.
    """
    spec_to_hub(obj["spec"])
    if obj["spec"].get("terminationGracePeriodSeconds", 0) < 0:
        obj["spec"]["terminationGracePeriodSeconds"] = 1
    status = obj.get("status")
    if status:
        address, addresses = status.get("podIP"), status.get("podIPs")
        if addresses and (not address or address == addresses[0].get("ip")):
            status["podIP"] = addresses[0].get("ip", "")
        elif address:
            status["podIPs"] = [{"ip": address}]
    return obj


def spec_to_hub(spec: Json) -> None:
    """Apply `to_hub` to a spec."""
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def default_pod_spec(spec: Json) -> None:
    """Set the defaults that also apply to templates and that the type does not define."""
    for volume in spec.get("volumes") or ():
        _volume(volume)
    for container in containers(spec):
        _container(container)
    if spec.get("overhead"):
        round_amounts(spec["overhead"])
    round_resources(spec.get("resources"))


def _requests_from_limits(resources: Json | None) -> None:
    """Default requests to the limits."""
    if not resources or not resources.get("limits"):
        return
    requests = resources.setdefault("requests", {})
    for name, amount in resources["limits"].items():
        requests.setdefault(name, amount)


def _total(spec: Json, field: str) -> dict[str, Quantity]:
    """Sum a resource field over the containers.

    An init container counts if it needs more than the regular containers together. Sidecars run beside both.
    """
    total: dict[str, Quantity] = {}
    for container in spec.get("containers") or ():
        _add(total, container, field)
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            _add(total, container, field)
            _add(sidecars, container, field)
            needed = dict(sidecars)
        else:
            needed = dict(sidecars)
            _add(needed, container, field)
        for name, amount in needed.items():
            peak[name] = max(peak[name], amount) if name in peak else amount
    for name, amount in peak.items():
        total[name] = max(total[name], amount) if name in total else amount
    return total


def _add(total: dict[str, Quantity], container: Json, field: str) -> None:
    for name, text in ((container.get("resources") or {}).get(field) or {}).items():
        amount = Quantity.parse(text)
        total[name] = total[name].add(amount) if name in total else amount


def _pod_level_resources(spec: Json) -> None:
    """Default requests and limits of the pod from those of its containers."""
    resources = spec["resources"]
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    if requests or limits:
        for name, amount in _total(spec, "limits").items():
            if is_hugepage(name) and name not in requests:
                limits.setdefault(name, str(amount))
        if limits:
            resources["limits"] = limits
    if not limits:
        return
    for name, amount in _total(spec, "requests").items():
        if (name in _POD_LEVEL or is_hugepage(name)) and is_overcommit_allowed(name):
            requests.setdefault(name, str(amount))
    for name, text in limits.items():
        if name in _POD_LEVEL or is_hugepage(name):
            requests.setdefault(name, text)
    if requests:
        resources["requests"] = requests


def _container(container: Json) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image", ""))
    round_resources(container.get("resources"))


def round_amounts(amounts: Json) -> None:
    """Round quantities up to thousandths."""
    for name, text in amounts.items():
        if text.isdigit() or (text[-1:] in "mikMGTPE" and text[:-1].isdigit()):
            continue
        rounded, exact = Quantity.parse(text).round_up(-3)
        if not exact:
            amounts[name] = str(rounded)


def round_resources(resources: Json | None) -> None:
    for field in ("limits", "requests"):
        if resources and resources.get(field):
            round_amounts(resources[field])


def _volume(volume: Json) -> None:
    sources = [name for name in volume if name != "name"]
    if not sources:
        volume["emptyDir"] = {}
    image, ephemeral = volume.get("image"), volume.get("ephemeral")
    if image is not None and not image.get("pullPolicy"):
        image["pullPolicy"] = pull_policy(image.get("reference", ""))
    if ephemeral is not None and ephemeral.get("volumeClaimTemplate"):
        default_claim_spec(ephemeral["volumeClaimTemplate"]["spec"])


def default_claim_spec(spec: Json) -> None:
    """Set the defaults of a PersistentVolumeClaim's spec, in a claim or in a template."""
    round_resources(spec.get("resources"))
