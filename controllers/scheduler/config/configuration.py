"""A KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1): profiles, plugin sets and arguments.

Unsupported fields are errors that name them, so that no setting is silently ignored. Facts: Kubernetes 1.36,
pkg/scheduler/apis/config (v1, validation, defaults).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.objects import Json
from controllers.scheduler.config.fields import ConfigurationError, fields, items, number

if TYPE_CHECKING:
    from controllers.scheduler.config.extenders import ExtenderSettings
    from controllers.scheduler.config.process import ProcessSettings

SCHEDULER_NAME: Final = "default-scheduler"
_API_VERSION, _KIND = "kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"
#: The extension points for which a profile can list plugins.
POINTS: Final = (
    "preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score", "reserve", "permit",
    "preBind", "bind", "postBind", "placementGenerate", "placementScore",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PluginSet:
    """A profile's plugins for one point, or for all (`multiPoint`)."""

    enabled: tuple[tuple[str, int], ...] = ()
    """Names and weights; 0: no weight set."""
    disabled: frozenset[str] = frozenset()
    """Names, or "*" for all plugins."""


@dataclass(frozen=True, slots=True)
class ProfileSettings:
    """One profile; pods choose it by `spec.schedulerName`."""

    name: str = SCHEDULER_NAME
    percentage: int | None = None
    """The percentage of nodes to score; 0: by the number of nodes; None: as for all profiles."""
    sets: Mapping[str, PluginSet] = field(default_factory=dict)
    """By point, and under "multiPoint"."""
    args: Mapping[str, Json] = field(default_factory=dict)
    """By plugin."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """A whole configuration; the defaults are upstream's."""

    profiles: tuple[ProfileSettings, ...] = (ProfileSettings(),)
    percentage: int = 0
    first_backoff: timedelta = timedelta(seconds=1)
    last_backoff: timedelta = timedelta(seconds=10)
    extenders: tuple[ExtenderSettings, ...] = ()
    process: ProcessSettings | None = None
    """The settings of the process; None if the file has none."""


def read(path: Path) -> Configuration:
    """Read the configuration in a file. Raise ConfigurationError or OSError."""
    import yaml

    try:
        document = yaml.safe_load(path.read_bytes())
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path}: {' '.join(str(error).split())}") from error
    try:
        return parse(document)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def parse(document: Any) -> Configuration:
    """Parse the configuration in a document. Raise ConfigurationError."""
    from controllers.scheduler.config.extenders import read_extenders
    from controllers.scheduler.config.process import read_process

    known = {
        "apiVersion", "kind", "profiles", "parallelism", "percentageOfNodesToScore", "podInitialBackoffSeconds",
        "podMaxBackoffSeconds", "delayCacheUntilActive", "extenders", "enableProfiling", "enableContentionProfiling",
        "clientConnection", "leaderElection",
    }  # fmt: skip
    top = fields(_without_nulls(document), "", known)
    if (top.get("apiVersion"), top.get("kind")) != (_API_VERSION, _KIND):
        raise ConfigurationError(f"must be a {_KIND} of {_API_VERSION}")
    number(top, "parallelism", "", 16, lowest=1)
    first = number(top, "podInitialBackoffSeconds", "", 1, lowest=1)
    last = number(top, "podMaxBackoffSeconds", "", 10, lowest=1)
    if last < first:
        raise ConfigurationError("podMaxBackoffSeconds: must be greater than or equal to podInitialBackoffSeconds")
    profiles = tuple(
        _profile(item, f"profiles[{position}]") for position, item in enumerate(items(top, "profiles", "") or [{}])
    )
    names = [profile.name for profile in profiles]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigurationError(f"profiles: duplicate schedulerName {twice}")
    return Configuration(
        profiles=profiles,
        percentage=number(top, "percentageOfNodesToScore", "", 0, highest=100),
        first_backoff=timedelta(seconds=first),
        last_backoff=timedelta(seconds=last),
        extenders=read_extenders(top),
        process=read_process(top) if {"clientConnection", "leaderElection"} & top.keys() else None,
    )


def _without_nulls(value: Any) -> Any:
    """Return the document without null fields, which mean the same as missing ones.

    kube-scheduler writes the arguments of disabled gates as null.
    """
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _profile(item: Any, where: str) -> ProfileSettings:
    raw = fields(item, where, {"schedulerName", "percentageOfNodesToScore", "plugins", "pluginConfig"})
    name = raw.get("schedulerName", SCHEDULER_NAME)
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"{where}.schedulerName: must be a name")
    sets = fields(raw.get("plugins") or {}, f"{where}.plugins", {*POINTS, "multiPoint"})
    args: dict[str, Json] = {}
    for position, entry in enumerate(items(raw, "pluginConfig", where)):
        at = f"{where}.pluginConfig[{position}]"
        config = fields(entry, at, {"name", "args"})
        plugin = config.get("name")
        if not isinstance(plugin, str) or plugin in args:
            raise ConfigurationError(f"{at}.name: must be a plugin's name, without duplicates")
        args[plugin] = _args(config.get("args"), plugin, f"{at}.args")
    percentage = "percentageOfNodesToScore"
    return ProfileSettings(
        name=name,
        percentage=number(raw, percentage, where, 0, highest=100) if raw.get(percentage) is not None else None,
        sets={point: _set(value, f"{where}.plugins.{point}") for point, value in sets.items()},
        args=args,
    )


def _args(value: Any, plugin: str, where: str) -> Json:
    args = dict(value) if isinstance(value, dict) else {}
    if value is not None and not isinstance(value, dict):
        raise ConfigurationError(f"{where}: must be an object")
    for name, expected in (("apiVersion", _API_VERSION), ("kind", f"{plugin}Args")):
        if args.pop(name, expected) != expected:
            raise ConfigurationError(f"{where}.{name}: must be {expected}")
    return args


def _set(value: Any, where: str) -> PluginSet:
    raw = fields(value or {}, where, {"enabled", "disabled"})
    enabled: list[tuple[str, int]] = []
    disabled: list[tuple[str, int]] = []
    for kind, found in (("enabled", enabled), ("disabled", disabled)):
        for position, item in enumerate(items(raw, kind, where)):
            at = f"{where}.{kind}[{position}]"
            entry = fields(item, at, {"name", "weight"})
            if not isinstance(entry.get("name"), str):
                raise ConfigurationError(f"{at}.name: must be a plugin's name")
            found.append((entry["name"], number(entry, "weight", at, 0)))
    names = [name for name, _ in enabled]
    if len(set(names)) < len(names):
        raise ConfigurationError(f"{where}.enabled: duplicate plugin name")
    return PluginSet(tuple(enabled), frozenset(name for name, _ in disabled))
