"""The served resources and versions, by emulated release, feature gates and `--runtime-config`.

Rules and texts are kube-apiserver's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from apiserver.api.features.gates import Features
from apiserver.api.schema.dropping import without_gates
from apiserver.registry.definition.resource import Release, Resource, Version

#: The stages of version names that `api/...` keys cover.
_STAGES: Final = {"api/ga": "ga", "api/beta": "beta", "api/alpha": "alpha"}
_BOOLEANS: Final = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True", ""), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)
#: Groups of the real server. A setting for a group that is not served here has no effect.
_UPSTREAM: Final = frozenset(
    {"", "apps", "autoscaling", "batch", "extensions", "policy"}
    | {
        f"{name}.k8s.io"
        for name in (
            "admission",
            "admissionregistration",
            "apiextensions",
            "apiregistration",
            "authentication",
            "authorization",
            "certificates",
            "coordination",
            "discovery",
            "events",
            "flowcontrol.apiserver",
            "imagepolicy",
            "internal.apiserver",
            "networking",
            "node",
            "rbac.authorization",
            "resource",
            "scheduling",
            "storage",
            "storagemigration",
        )
    }
)
#: Versions of served groups without any served resource.
_UNBUILT: Final = frozenset(
    {
        ("resource.k8s.io", "v1alpha3"),
        ("coordination.k8s.io", "v1alpha2"),
        ("coordination.k8s.io", "v1beta1"),
        ("scheduling.k8s.io", "v1beta1"),
        ("storage.k8s.io", "v1alpha1"),
        ("storage.k8s.io", "v1beta1"),
        ("discovery.k8s.io", "v1beta1"),
        ("node.k8s.io", "v1alpha1"),
        ("node.k8s.io", "v1beta1"),
    }
)


class RuntimeConfigError(ValueError):
    """Error in a setting, with upstream's text if upstream has one."""


def parse_runtime_config(text: str) -> dict[str, str]:
    """Parse `api/all=true,resource.k8s.io/v1beta1=true` to a mapping; a bare key is true.

    All old names of the core group's version mean that version, also with a resource after them (kube-apiserver's
    completion of its options).
    """
    settings: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, _, value = part.partition("=")
        key = key.strip()
        if key.removeprefix("api/").partition("/")[0] == "v1":
            key = "/v1"
        if key != "api/legacy":
            settings[key] = value.strip()
    return settings


def stage(version: str) -> str:
    """Return the stage of a version by its name: ga, beta or alpha."""
    return "alpha" if "alpha" in version else "beta" if "beta" in version else "ga"


def list_known(catalog: Iterable[Resource], features: Features) -> tuple[Resource, ...]:
    """Return every resource without the fields of kubedra's own disabled gates."""
    hidden = features.hidden
    return tuple(_remove_gated(resource, hidden) for resource in catalog)


def _remove_gated(resource: Resource, gates: frozenset[str]) -> Resource:
    versions = tuple(replace(version, schema=without_gates(version.schema, gates)) for version in resource.versions)
    changed = any(new.schema is not old.schema for new, old in zip(versions, resource.versions, strict=True))
    return replace(resource, versions=versions) if changed else resource


def select_served(
    catalog: Iterable[Resource], features: Features, config: Mapping[str, str]
) -> list[tuple[Resource, Version]]:
    """Return every resource with each served version. Raise RuntimeConfigError."""
    resources = list(catalog)
    flags = _flags(resources, config)
    _check_keys(resources, features.release, flags)
    on = [r for r in resources if not r.gate or features.enabled(r.gate)]
    return [(r, v) for r in on for v in r.versions if _available(v, features.release) and _is_on(r, v, flags)]


def _flags(resources: list[Resource], config: Mapping[str, str]) -> dict[str, bool]:
    """Return the settings as booleans. Raise RuntimeConfigError with upstream's texts in upstream's order."""
    if config.get("api/all") == "false" and len(config) == 1:
        raise RuntimeConfigError("invalid runtime-config with only api/all=false")
    keys = {key: key.split("/") for key in config if key != "api/all" and key not in _STAGES}
    for key, parts in keys.items():
        if len(parts) not in (2, 3):
            raise RuntimeConfigError(f"runtime-config invalid key {key}")
    known = {(resource.group, version.name) for resource in resources for version in resource.versions}
    groups = {group for group, _ in known}
    unknown = sorted({"/".join(parts[:2]) for parts in keys.values() if parts[0] not in _UPSTREAM | groups})
    if unknown:
        raise RuntimeConfigError(f"unknown api groups {','.join(unknown)}")
    flags = {}
    for key, value in config.items():
        if key not in keys:
            if value not in ("true", "false"):
                raise RuntimeConfigError(f"invalid value {key}={value}")
            flags[key] = value == "true"
        elif keys[key][0] in groups and tuple(keys[key][:2]) not in _UNBUILT - known:
            flags["/".join(filter(None, keys[key]))] = _flag(key, keys[key], value, known)
    return flags


def _flag(key: str, parts: list[str], value: str, known: set[tuple[str, str]]) -> bool:
    if (parts[0], parts[1]) not in known:
        raise RuntimeConfigError(f"group version {'/'.join(parts[:2])} that has not been registered")
    on = _BOOLEANS.get(value)
    if on is None:
        raise RuntimeConfigError(
            f'invalid value of {key}: {value}, err: strconv.ParseBool: parsing "{value}": invalid syntax'
        )
    if len(parts) == 3 and parts[2].lower() != parts[2]:
        raise RuntimeConfigError(
            f'invalid key {key}: group/version/resource and resource is always lowercase plural, not "{parts[2]}"'
        )
    return on


def _available(version: Version, release: Release) -> bool:
    return version.introduced <= release and (version.removed is None or release < version.removed)


def _name(resource: Resource, version: Version) -> str:
    return f"{resource.group}/{version.name}" if resource.group else version.name


def _is_on(resource: Resource, version: Version, flags: Mapping[str, bool]) -> bool:
    """Return the most specific setting: the resource's, its version's, its stage's, `api/all`, the default."""
    name = _name(resource, version)
    for key in (f"{name}/{resource.plural}", name):
        if key in flags:
            return flags[key]
    by_stage = flags.get(f"api/{stage(version.name)}")
    if by_stage is not None:
        return by_stage
    return flags.get("api/all", version.on_by_default)


def _check_keys(resources: list[Resource], release: Release, flags: Mapping[str, bool]) -> None:
    versions: dict[str, list[tuple[Resource, Version]]] = {}
    for resource in resources:
        for version in resource.versions:
            versions.setdefault(_name(resource, version), []).append((resource, version))
    for key, on in flags.items():
        if not on or key == "api/all" or key in _STAGES:
            continue
        name, plural = next(
            (name, key[len(name) + 1 :]) for name in versions if key == name or key.startswith(name + "/")
        )
        _check_introduced(name, plural, versions[name], release)


def _check_introduced(name: str, plural: str, known: list[tuple[Resource, Version]], release: Release) -> None:
    hint = "Consider setting --runtime-config-emulation-forward-compatible=true"
    now = f"{release[0]}.{release[1]}"
    if not plural:
        if not any(_available(version, release) for _, version in known):
            raise RuntimeConfigError(
                f"cannot enable version {name} in runtime-config because all the resources have been introduced after"
                f" the current version {now}. {hint}"
            )
        return
    for resource, version in known:
        if resource.plural == plural and not _available(version, release):
            since = f"{version.introduced[0]}.{version.introduced[1]}"
            kind = f"{resource.group}/{version.name}, Resource={plural}"
            raise RuntimeConfigError(
                f"cannot enable resource {kind} in runtime-config because it is introduced at {since} after the current"
                f" version {now}. {hint}"
            )


def deprecation(resource: Resource, version: Version, release: Release) -> str:
    """Return the warning for a deprecated version, or "" for others.

    `release` is the newest known one, not the emulated one.
    """
    if version.deprecated is None or version.deprecated > release:
        return ""
    removed = f", unavailable in v{version.removed[0]}.{version.removed[1]}+" if version.removed else ""
    instead = f"; use {version.successor}" if version.successor else ""
    return (
        f"{_name(resource, version)} {resource.kind} is deprecated in"
        f" v{version.deprecated[0]}.{version.deprecated[1]}+{removed}{instead}"
    )
