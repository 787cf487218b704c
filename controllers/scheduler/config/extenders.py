"""The extenders of a KubeSchedulerConfiguration. Unsupported fields are errors that name them.

Facts: Kubernetes 1.36, kubescheduler.config.k8s.io/v1 and its validation.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from apiserver.api.objects import Json
from controllers.scheduler.config.fields import ConfigurationError, duration, fields, items, number
from kubedra.kubeconfig.credentials import Credentials
from kubedra.kubeconfig.reader import Cluster

_TEXTS: Final = ("urlPrefix", "filterVerb", "prioritizeVerb", "bindVerb")
_FLAGS: Final = ("enableHTTPS", "nodeCacheCapable", "ignorable")
_TIMEOUT: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderSettings:
    """One entry of `extenders`."""

    server: Cluster
    filter: str = ""
    prioritize: str = ""
    bind: str = ""
    weight: int = 1
    timeout: timedelta = timedelta(seconds=5)
    by_name: bool = False
    """Whether the extender caches nodes, so that requests have only their names (nodeCacheCapable)."""
    managed: frozenset[str] = frozenset()
    """Resources that make a pod relevant for the extender; all pods are relevant if empty."""
    hidden: frozenset[str] = frozenset()
    """Resources that the extender counts in place of the scheduler (ignoredByScheduler)."""
    ignorable: bool = False


def read_extenders(top: Json) -> tuple[ExtenderSettings, ...]:
    """Parse all extenders of a configuration. Raise ConfigurationError."""
    extenders = tuple(_extender(item, f"extenders[{place}]") for place, item in enumerate(items(top, "extenders", "")))
    binders = sum(1 for each in extenders if each.bind)
    if binders > 1:
        raise ConfigurationError(f"extenders: only one extender can implement bind, found {binders}")
    managed = [name for each in extenders for name in each.managed]
    if twice := next((name for name in managed if managed.count(name) > 1), ""):
        raise ConfigurationError(f"extenders: duplicate managed resource {twice}")
    return extenders


def _extender(item: Any, where: str) -> ExtenderSettings:
    known = {*_TEXTS, *_FLAGS, "preemptVerb", "weight", "tlsConfig", "httpTimeout", "managedResources"}
    raw = fields(item, where, known)
    if raw.get("preemptVerb"):
        raise ConfigurationError(f"{where}.preemptVerb: is not supported")
    for name in _TEXTS:
        if not isinstance(raw.get(name, ""), str):
            raise ConfigurationError(f"{where}.{name}: must be a string")
    for name in _FLAGS:
        if not isinstance(raw.get(name, False), bool):
            raise ConfigurationError(f"{where}.{name}: must be true or false")
    url = raw.get("urlPrefix", "").rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"{where}.urlPrefix: must be an http:// or https:// address")
    weight = number(raw, "weight", where, 0)
    if raw.get("prioritizeVerb") and not weight:
        raise ConfigurationError(f"{where}.weight: must have a positive weight applied to it")
    resources = [_resource(each, f"{where}.managedResources[{n}]") for n, each in enumerate(_managed(raw, where))]
    return ExtenderSettings(
        server=_server(url, raw.get("tlsConfig"), bool(raw.get("enableHTTPS")), f"{where}.tlsConfig"),
        filter=raw.get("filterVerb", ""),
        prioritize=raw.get("prioritizeVerb", ""),
        bind=raw.get("bindVerb", ""),
        weight=weight,
        timeout=duration(raw, "httpTimeout", where, _TIMEOUT) or _TIMEOUT,
        by_name=raw.get("nodeCacheCapable", False),
        managed=frozenset(name for name, _ in resources),
        hidden=frozenset(name for name, hidden in resources if hidden),
        ignorable=raw.get("ignorable", False),
    )


def _managed(raw: Json, where: str) -> list[Any]:
    return items(raw, "managedResources", where)


def _resource(item: Any, where: str) -> tuple[str, bool]:
    raw = fields(item, where, {"name", "ignoredByScheduler"})
    name = raw.get("name")
    if not isinstance(name, str) or "/" not in name or name.partition("/")[0].endswith("kubernetes.io"):
        raise ConfigurationError(f"{where}.name: is an invalid extended resource name")
    return name, bool(raw.get("ignoredByScheduler"))


def _server(url: str, value: Any, https: bool, where: str) -> Cluster:
    raw = fields(value or {}, where, {"insecure", "caFile", "caData", "certFile", "certData", "keyFile", "keyData"})
    parts = {part: _pem(raw, part, where) for part in ("ca", "cert", "key")}
    insecure = bool(raw.get("insecure")) or (https and not parts["ca"])
    credentials = Credentials(insecure=insecure, certificate=parts["cert"], key=parts["key"])
    return Cluster(server=url, authority=parts["ca"], credentials=credentials)


def _pem(raw: Json, part: str, where: str) -> bytes:
    """Read a certificate or key from a file or from inline base64."""
    try:
        if raw.get(f"{part}Data"):
            return base64.b64decode(str(raw[f"{part}Data"]), validate=True)
        return Path(str(raw[f"{part}File"])).read_bytes() if raw.get(f"{part}File") else b""
    except (OSError, binascii.Error) as error:
        raise ConfigurationError(f"{where}.{part}: {error}") from error
