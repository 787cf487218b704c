"""Profiles: the plugins at each point and their weights, for the pods of one scheduler name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from controllers.allocator import Allocator
from controllers.runtime.events import EventRecorder
from controllers.scheduler.config.arguments import read_arguments
from controllers.scheduler.config.configuration import (
    Configuration,
    PluginSet,
    ProfileSettings,
    read,
)
from controllers.scheduler.config.fields import ConfigurationError
from controllers.scheduler.cycle.evaluate import Evaluator
from controllers.scheduler.cycle.plugins import PluginDependencies, default_plugins
from controllers.scheduler.dra.claims import ClaimCache
from controllers.scheduler.dra.dynamic_resources import DynamicResources
from controllers.scheduler.framework.attempt_metrics import Points
from controllers.scheduler.framework.framework import Cycle, Plugin
from controllers.scheduler.podgroups.preemption import GroupPreemption
from controllers.scheduler.preemption.default import Preemption
from controllers.scheduler.state.nodes import Cache

#: The functions of a plugin by extension point.
_PARTS: Final = {
    "preEnqueue": ("pre_enqueue",),
    "preFilter": ("pre_filter", "nodes", "count"),
    "filter": ("filter",),
    "postFilter": ("post_filter",),
    "preScore": ("pre_score",),
    "score": ("score", "scores"),
    "reserve": ("reserve", "unreserve"),
    "preBind": ("pre_bind",),
    "placementGenerate": ("placements",),
    "placementScore": ("placement_score", "placement_normalize"),
}
#: Plugins whose preparation belongs to Score: upstream has no PreScore for them, or scores without it.
_PREPARED_WITH_SCORE: Final = frozenset(
    ("DynamicResources", "ImageLocality", "NodeAffinity", "NodeResourcesBalancedAllocation")
)
_PARTS_TOGETHER: Final = {name: parts for name, parts in _PARTS.items() if name != "preScore"} | {
    "score": ("pre_score", *_PARTS["score"])
}
#: Plugins that cannot be disabled: they are the only ones to order the queue and to bind.
_FIXED: Final = {"PrioritySort": "queueSort", "DefaultBinder": "bind"}
_TOGETHER: Final = (("preFilter", "filter"), ("preScore", "score"))
_NOTHING: Final = PluginSet()
_GATED: Final = ", or its feature gate is off"


@dataclass(frozen=True, slots=True)
class Profile:
    """The plugins for the pods of one scheduler name."""

    name: str
    """The scheduler name."""
    plugins: tuple[Plugin, ...]
    evaluator: Evaluator
    recorder: EventRecorder
    preemption: Preemption | None = None
    group_preemption: GroupPreemption | None = None
    """Preemption for groups as a whole, with its gate."""
    timed_plugins: tuple[Plugin, ...] = ()
    """The same plugins with timed functions."""
    points: Points = field(default_factory=Points)

    def plugins_for(self, cycle: Cycle) -> tuple[Plugin, ...]:
        return self.timed_plugins if cycle.is_timed else self.plugins


def load(path: Path, enabled: Callable[[str], bool]) -> Configuration:
    """Read and check the configuration in a file. Raise ConfigurationError or OSError."""
    configuration = read(path)
    try:
        check(configuration, enabled)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    return configuration


def check(configuration: Configuration, enabled: Callable[[str], bool]) -> None:
    """Raise ConfigurationError for an unsupported profile."""
    allocator = Allocator()
    devices = DynamicResources(allocator, ClaimCache(allocator.allocated), conditions=True)
    for settings in configuration.profiles:
        parts = PluginDependencies(
            cache=Cache(), devices=devices, arguments=read_arguments(settings, enabled), enabled=enabled
        )
        arrange(default_plugins(parts), settings)


def arrange(plugins: Sequence[Plugin], settings: ProfileSettings) -> tuple[Plugin, ...]:
    """Return a profile's plugins in its order and with its weights, without disabled ones. Raise ConfigurationError."""
    _check_names(plugins, settings)
    general = _merge(plugins, settings.sets.get("multiPoint", _NOTHING))
    first = [name for name, _ in settings.sets.get("filter", _NOTHING).enabled]
    order = [*first, *(name for name in general if name not in first)]
    order += [plugin.name for plugin in plugins if plugin.name not in order]
    arranged = (
        _with_enabled_points(plugin, settings, general) for plugin in sorted(plugins, key=lambda p: order.index(p.name))
    )
    return tuple(plugin for plugin in arranged if plugin is not None)


def counted_points(plugin: Plugin) -> tuple[str, ...]:
    """Return upstream's points at which the calls of a plugin are counted."""
    return ("PreFilter", "Filter", "Score") + (() if plugin.name in _PREPARED_WITH_SCORE else ("PreScore",))


def _check_names(plugins: Iterable[Plugin], settings: ProfileSettings) -> None:
    known = {plugin.name for plugin in plugins} | set(_FIXED)
    where = f"profile {settings.name}"
    for point, chosen in settings.sets.items():
        for name, _ in chosen.enabled:
            if name not in known:
                raise ConfigurationError(f"{where}: plugins.{point}.enabled: unknown plugin {name}{_GATED}")
        for name, fixed in _FIXED.items():
            off = name in chosen.disabled or "*" in chosen.disabled
            if point in (fixed, "multiPoint") and off and name not in [enabled for enabled, _ in chosen.enabled]:
                raise ConfigurationError(f"{where}: plugins.{point}.disabled: {name} cannot be disabled")
    for name in settings.args:
        if name not in known:
            raise ConfigurationError(f"{where}: pluginConfig: unknown plugin {name}{_GATED}")


def _merge(plugins: Sequence[Plugin], chosen: PluginSet) -> dict[str, int]:
    """Return the names and weights of the plugins for all points: enabled defaults, then added ones."""
    weights = dict(chosen.enabled)
    merged: dict[str, int] = {}
    if "*" not in chosen.disabled:
        merged = {
            plugin.name: weights.get(plugin.name) or plugin.weight
            for plugin in plugins
            if plugin.name not in chosen.disabled
        }
    for name, weight in chosen.enabled:
        merged.setdefault(name, weight or 1)
    return merged


def _with_enabled_points(plugin: Plugin, settings: ProfileSettings, general: dict[str, int]) -> Plugin | None:
    """Return the plugin with only its enabled functions; None if none is enabled."""
    name = plugin.name
    changes: dict[str, Any] = {}
    off: set[str] = set()
    weight = general.get(name, 1)
    parts_of = _PARTS_TOGETHER if name in _PREPARED_WITH_SCORE else _PARTS
    for point, parts in parts_of.items():
        chosen = settings.sets.get(point, _NOTHING)
        weights = dict(chosen.enabled)
        enabled = name in weights or (name in general and name not in chosen.disabled and "*" not in chosen.disabled)
        if point == "score" and weights.get(name):
            weight = weights[name]
        if not enabled and any(getattr(plugin, part) is not None for part in parts):
            off.add(point)
            changes |= dict.fromkeys(parts)
    built = {point for point, parts in parts_of.items() if any(getattr(plugin, part) is not None for part in parts)}
    if off == built and (built or name not in general):
        return None
    for before, after in _TOGETHER:
        if before in off and after in built and after not in off:
            raise ConfigurationError(f"profile {settings.name}: {name} needs {before} for {after}: disable both")
    return replace(plugin, **changes, weight=weight)
