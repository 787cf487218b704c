"""What a KubeSchedulerConfiguration says of the process that the scheduler runs in: how it reaches its server, and
whether it works only while it holds a lease. Where a command line says the same, that counts.

Facts: Kubernetes 1.36, component-base/config/v1alpha1 (fields, defaults, validation), kube-scheduler's own defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from apiserver.api.objects import Json
from controllers.scheduler.config.fields import ConfigurationError, duration, fields, number

#: Encodings that the fields may name. They are a client's choice, and this one's is JSON.
_ENCODINGS: Final = ("application/json", "application/vnd.kubernetes.protobuf", "application/cbor")
_TIMES: Final = ("leaseDuration", "renewDeadline", "retryPeriod")
#: Of kube-scheduler: whoever is given its file takes part in its election.
_LEASE: Final = {"resourceLock": "leases", "resourceName": "kube-scheduler", "resourceNamespace": "kube-system"}
#: The flag that says the same.
_FLAGS: Final = {
    "leaderElect": "leader-elect",
    "leaseDuration": "leader-elect-lease-duration",
    "renewDeadline": "leader-elect-renew-deadline",
    "retryPeriod": "leader-elect-retry-period",
    "resourceLock": "leader-elect-resource-lock",
    "resourceName": "leader-elect-resource-name",
    "resourceNamespace": "leader-elect-resource-namespace",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """Of the process; empty where the file does not say it."""

    kubeconfig: str = ""
    qps: float = 0.0
    """Requests per second; 0 or less: any number."""
    burst: int = 0
    """How many of them at once; 0: by default."""
    election: Mapping[str, str] | None = None
    """By the flag of leader election that says the same."""


def read_process(top: Json) -> ProcessSettings:
    """`clientConnection` and `leaderElection` of a configuration. Raises ConfigurationError."""
    where = "clientConnection"
    raw = fields(top.get(where) or {}, where, {"kubeconfig", "acceptContentTypes", "contentType", "qps", "burst"})
    for name in ("contentType", "acceptContentTypes"):
        for named in filter(None, _text(raw, name, where).split(",")):
            if named.partition(";")[0].strip() not in _ENCODINGS:
                raise ConfigurationError(f"{where}.{name}: there is no encoding {named.strip()}")
    qps = raw.get("qps") or 0
    if not isinstance(qps, int | float) or isinstance(qps, bool):
        raise ConfigurationError(f"{where}.qps: must be a number")
    return ProcessSettings(
        kubeconfig=_text(raw, "kubeconfig", where),
        qps=float(qps),
        burst=number(raw, "burst", where, 0),
        election=_election(top["leaderElection"]) if top.get("leaderElection") is not None else None,
    )


def _election(value: Any) -> dict[str, str]:
    where = "leaderElection"
    raw = fields(value, where, set(_FLAGS))
    elect = raw.get("leaderElect")
    if elect is not None and not isinstance(elect, bool):
        raise ConfigurationError(f"{where}.leaderElect: must be true or false")
    said = {"leaderElect": "false" if elect is False else "true"}
    for name in _TIMES:
        if duration(raw, name, where, timedelta()):
            said[name] = str(raw[name])
    for name, default in _LEASE.items():
        said[name] = _text(raw, name, where) or default
    if said["leaderElect"] == "true" and said["resourceLock"] != "leases":
        raise ConfigurationError(f"{where}.resourceLock: must be leases")
    return {_FLAGS[name]: text for name, text in said.items()}


def _text(holder: Json, name: str, where: str) -> str:
    value = holder.get(name)
    if value is not None and not isinstance(value, str):
        raise ConfigurationError(f"{where}.{name}: must be a text")
    return value or ""
