"""What a file tells admission plugins (--admission-control-config-file).

Facts: apiserver, pkg/admission/config.go; pkg/admission/plugin/webhook/config; pkg/util/webhook/authentication.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson

from apiserver.admission.event_rate_limit import EventRateLimit, read_event_limits
from apiserver.admission.podsecurity import PodSecurity
from apiserver.admission.podsecurity.configuration import PodSecurityConfiguration, read_pod_security
from apiserver.admission.resource_quota import ResourceQuota
from apiserver.admission.webhooks.mutating import MutatingAdmissionWebhook
from apiserver.admission.webhooks.validating import ValidatingAdmissionWebhook
from apiserver.configurations import ADMISSION, QUOTA, WEBHOOKS, read_configuration
from apiserver.registry.admission import Plugin
from apiserver.webhooks.credentials import Wallet, read_wallet

__all__ = ["AdmissionSettings", "read_admission"]

Json = dict[str, Any]

_GROUP: Final = "apiserver.config.k8s.io"
_KINDS: Final = dict.fromkeys((f"{_GROUP}/v1", f"{_GROUP}/v1alpha1", "apiserver.k8s.io/v1alpha1"), ADMISSION)
_WEBHOOK_KINDS: Final = {f"{_GROUP}/v1": WEBHOOKS, f"{_GROUP}/v1alpha1": WEBHOOKS}
_OLD_QUOTA: Final = "resourcequota.admission.k8s.io"
_QUOTA_KINDS: Final = dict.fromkeys((f"{_GROUP}/v1", f"{_OLD_QUOTA}/v1beta1", f"{_OLD_QUOTA}/v1alpha1"), QUOTA)
_WEBHOOKS: Final[Mapping[str, Callable[..., Plugin]]] = {
    "MutatingAdmissionWebhook": MutatingAdmissionWebhook,
    "ValidatingAdmissionWebhook": ValidatingAdmissionWebhook,
}


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """What plugins are told. `limited` is what may only be used where a quota limits it; `event_limits` are those of
    EventRateLimit; `wallets`, by plugin, have the credentials for webhooks; `unheeded` are plugins whose configuration
    is not followed.
    """

    pod_security: PodSecurityConfiguration = PodSecurityConfiguration()  # noqa: RUF009 - it never changes
    limited: tuple[Json, ...] = ()
    event_limits: tuple[Json, ...] = ()
    wallets: Mapping[str, Wallet] = field(default_factory=dict)
    unheeded: tuple[str, ...] = ()

    def plugins(self) -> dict[str, Callable[[], Plugin]]:
        """What makes the plugins that are told something."""
        made: dict[str, Callable[[], Plugin]] = {
            "PodSecurity": partial(PodSecurity, self.pod_security),
            "ResourceQuota": partial(ResourceQuota, self.limited),
            "EventRateLimit": partial(EventRateLimit, self.event_limits),
        }
        for name, wallet in self.wallets.items():
            made[name] = partial(_WEBHOOKS[name], wallet)
        return made


def read_admission(path: Path | None) -> AdmissionSettings:
    """What a file says. Raises ValueError, in one line."""
    if path is None:
        return AdmissionSettings()
    flag = f"--admission-control-config-file {path}"
    try:
        plugins = read_configuration(path.read_bytes(), _KINDS).obj.get("plugins") or []
    except OSError as error:
        raise ValueError(f"{flag}: {(error.strerror or '').lower()}") from error
    except ValueError as error:
        raise ValueError(f"{flag}: {error}") from error
    pod_security, wallets, unheeded = PodSecurityConfiguration(), {}, []
    limited: tuple[Json, ...] = ()
    event_limits: tuple[Json, ...] = ()
    for plugin in plugins:
        name = plugin.get("name", "")
        try:
            text = _text(path, plugin)
            if name == "PodSecurity":
                pod_security = read_pod_security(text)
            elif name == "ResourceQuota":
                limited = tuple(read_configuration(text, _QUOTA_KINDS).obj.get("limitedResources") or ())
            elif name == "EventRateLimit":
                event_limits = read_event_limits(text)
            elif name in _WEBHOOKS:
                said = read_configuration(text, _WEBHOOK_KINDS).obj
                if said.get("kubeConfigFile"):
                    wallets[name] = read_wallet(path.parent / said["kubeConfigFile"])
            else:
                unheeded.append(name)
        except (OSError, ValueError) as error:
            raise ValueError(f"{flag}: {name}: {error}") from error
    return AdmissionSettings(pod_security, limited, event_limits, wallets, tuple(unheeded))


def _text(path: Path, plugin: Json) -> bytes:
    """A plugin's configuration: what stands in the file, or a file beside it."""
    if plugin.get("configuration") is not None:
        return orjson.dumps(plugin["configuration"])
    if not plugin.get("path"):
        raise ValueError("neither a configuration nor a path")
    return path.parent.joinpath(str(plugin["path"])).read_bytes()
