"""The process settings in a KubeSchedulerConfiguration: client connection and leader election.

Flags take precedence over the file. Facts: Kubernetes 1.36, component-base/config/v1alpha1 (fields, defaults,
validation), kube-scheduler's own defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from apiserver.api.objects import Json
from controllers.scheduler.config.fields import ConfigurationError, duration, fields, number

#: Valid encodings. The fields are hints to the client; this one always uses JSON.
_ENCODINGS: Final = ("application/json", "application/vnd.kubernetes.protobuf", "application/cbor")
_TIMES: Final = ("leaseDuration", "renewDeadline", "retryPeriod")
#: kube-scheduler's lease: a process with its file takes part in its election.
_LEASE: Final = {"resourceLock": "leases", "resourceName": "kube-scheduler", "resourceNamespace": "kube-system"}
#: The equivalent flags.
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
    """Settings of the process; empty values are not in the file."""

    kubeconfig: str = ""
    qps: float = 0.0
    """Requests per second; 0 or less: no limit."""
    burst: int = 0
    """The burst of requests; 0: the default."""
    election: Mapping[str, str] | None = None
    """Values by the equivalent flag of leader election."""


def read_process(top: Json) -> ProcessSettings:
    """Parse `clientConnection` and `leaderElection` of a configuration. Raise ConfigurationError."""
    where = "clientConnection"
    raw = fields(top.get(where) or {}, where, {"kubeconfig", "acceptContentTypes", "contentType", "qps", "burst"})
    for name in ("contentType", "acceptContentTypes"):
        for encoding in filter(None, _text(raw, name, where).split(",")):
            if encoding.partition(";")[0].strip() not in _ENCODINGS:
                raise ConfigurationError(f"{where}.{name}: unknown encoding {encoding.strip()}")
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
    values = {"leaderElect": "false" if elect is False else "true"}
    for name in _TIMES:
        if duration(raw, name, where, timedelta()):
            values[name] = str(raw[name])
    for name, default in _LEASE.items():
        values[name] = _text(raw, name, where) or default
    if values["leaderElect"] == "true" and values["resourceLock"] != "leases":
        raise ConfigurationError(f"{where}.resourceLock: must be leases")
    return {_FLAGS[name]: text for name, text in values.items()}


def _text(holder: Json, name: str, where: str) -> str:
    value = holder.get(name)
    if value is not None and not isinstance(value, str):
        raise ConfigurationError(f"{where}.{name}: must be a string")
    return value or ""
