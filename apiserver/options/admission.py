"""The configuration file of admission plugins (--admission-control-config-file).

Facts: apiserver, pkg/admission/config.go; pkg/admission/plugin/webhook/config, policy/config and manifest;
pkg/util/webhook/authentication.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from apiserver.admission.plugins.event_rate_limit import EventRateLimit, read_event_limits
from apiserver.admission.plugins.resource_quota import ResourceQuota
from apiserver.admission.podsecurity import PodSecurity
from apiserver.admission.podsecurity.configuration import PodSecurityConfiguration, read_pod_security
from apiserver.admission.policies.mutating_policy import MutatingAdmissionPolicy
from apiserver.admission.policies.validating_policy import ValidatingAdmissionPolicy
from apiserver.admission.webhooks.mutating import MutatingAdmissionWebhook
from apiserver.admission.webhooks.validating import ValidatingAdmissionWebhook
from apiserver.api.errors.field_errors import Path as Field
from apiserver.api.errors.field_errors import aggregate, forbidden, invalid
from apiserver.api.helpers.config_files import (
    ADMISSION,
    MUTATING_POLICIES,
    QUOTA,
    VALIDATING_POLICIES,
    WEBHOOKS,
    read_configuration,
)
from apiserver.api.objects import Json
from apiserver.webhooks.credentials import EMPTY, CredentialStore, read_credentials

if TYPE_CHECKING:
    from apiserver.admission.plugins.registered import Make
    from apiserver.api.features.gates import Features
    from apiserver.resources.admissionregistration.manifests import Manifests

__all__ = ["AdmissionSettings", "read_admission"]


_GROUP: Final = "apiserver.config.k8s.io"
_KINDS: Final = dict.fromkeys((f"{_GROUP}/v1", f"{_GROUP}/v1alpha1", "apiserver.k8s.io/v1alpha1"), ADMISSION)
_WEBHOOK_KINDS: Final = {f"{_GROUP}/v1": WEBHOOKS, f"{_GROUP}/v1alpha1": WEBHOOKS}
_OLD_QUOTA: Final = "resourcequota.admission.k8s.io"
_QUOTA_KINDS: Final = dict.fromkeys((f"{_GROUP}/v1", f"{_OLD_QUOTA}/v1beta1", f"{_OLD_QUOTA}/v1alpha1"), QUOTA)
_WEBHOOKS: Final = {
    "MutatingAdmissionWebhook": MutatingAdmissionWebhook,
    "ValidatingAdmissionWebhook": ValidatingAdmissionWebhook,
}
_POLICIES: Final = {
    "MutatingAdmissionPolicy": MutatingAdmissionPolicy,
    "ValidatingAdmissionPolicy": ValidatingAdmissionPolicy,
}
_POLICY_KINDS: Final = {
    "MutatingAdmissionPolicy": {f"{_GROUP}/v1": MUTATING_POLICIES},
    "ValidatingAdmissionPolicy": {f"{_GROUP}/v1": VALIDATING_POLICIES},
}


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """The configuration of plugins.

    `limited` are the resources that need a quota to be used; `event_limits` are those of EventRateLimit. `credentials`
    are those for webhooks, by plugin. `manifests` are the manifests of plugins, by name.
    `ignored_configurations` are the plugins with an ignored configuration.
    """

    pod_security: PodSecurityConfiguration = PodSecurityConfiguration()  # noqa: RUF009 - it never changes
    limited: tuple[Json, ...] = ()
    event_limits: tuple[Json, ...] = ()
    credentials: Mapping[str, CredentialStore] = field(default_factory=dict)
    manifests: Mapping[str, Manifests] = field(default_factory=dict)
    ignored_configurations: tuple[str, ...] = ()

    def plugins(self) -> dict[str, Make]:
        """Return the constructors of the configured plugins."""
        made: dict[str, Make] = {
            "PodSecurity": partial(PodSecurity, configuration=self.pod_security),
            "ResourceQuota": lambda registry: ResourceQuota(self.limited),
            "EventRateLimit": lambda registry: EventRateLimit(self.event_limits),
        }
        for name in {*self.credentials, *self.manifests}:
            files = self.manifests.get(name)
            if name in _POLICIES:
                made[name] = partial(_POLICIES[name], files=files)
            else:
                made[name] = partial(_WEBHOOKS[name], credentials=self.credentials.get(name, EMPTY), files=files)
        return made


def read_admission(path: Path | None, features: Features) -> AdmissionSettings:
    """Parse the configuration file. Raise ValueError, in one line."""
    if path is None:
        return AdmissionSettings()
    flag = f"--admission-control-config-file {path}"
    try:
        plugins = read_configuration(path.read_bytes(), _KINDS).obj.get("plugins") or []
    except OSError as error:
        raise ValueError(f"{flag}: {(error.strerror or '').lower()}") from error
    except ValueError as error:
        raise ValueError(f"{flag}: {error}") from error
    pod_security, credentials, ignored_configurations = PodSecurityConfiguration(), {}, []
    manifests: dict[str, Manifests] = {}
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
                spec = read_configuration(text, _WEBHOOK_KINDS).obj
                if spec.get("kubeConfigFile"):
                    credentials[name] = read_credentials(path.parent / spec["kubeConfigFile"])
                manifests |= _manifests(name, spec, features)
            elif name in _POLICIES:
                manifests |= _manifests(name, read_configuration(text, _POLICY_KINDS[name]).obj, features)
            else:
                ignored_configurations.append(name)
        except (OSError, ValueError) as error:
            raise ValueError(f"{flag}: {name}: {error}") from error
    return AdmissionSettings(pod_security, limited, event_limits, credentials, manifests, tuple(ignored_configurations))


def _manifests(plugin: str, spec: Json, features: Features) -> dict[str, Manifests]:
    """Return the manifests to read, by the plugin's name. Raise ValueError."""
    text = spec.get("staticManifestsDir", "")
    if not text:
        return {}
    # Imported only here: most servers read no manifests.
    from apiserver.resources.admissionregistration.configurations import GATE
    from apiserver.resources.admissionregistration.manifests import Manifests

    at, directory = Field("staticManifestsDir"), Path(text)
    if not features.enabled(GATE):
        wrong = forbidden(at, f"staticManifestsDir requires the {GATE} feature gate to be enabled")
    elif not directory.is_absolute():
        wrong = invalid(at, text, "must be an absolute file path")
    elif not directory.exists():
        wrong = invalid(at, text, f"unable to read: stat {text}: no such file or directory")
    elif not directory.is_dir():
        wrong = invalid(at, text, "must be a directory")
    else:
        return {plugin: Manifests(plugin, directory, features)}
    raise ValueError(aggregate([wrong]))


def _text(path: Path, plugin: Json) -> bytes:
    """Return a plugin's configuration, inline or from another file."""
    if plugin.get("configuration") is not None:
        return orjson.dumps(plugin["configuration"])
    if not plugin.get("path"):
        raise ValueError("neither a configuration nor a path")
    return path.parent.joinpath(str(plugin["path"])).read_bytes()
