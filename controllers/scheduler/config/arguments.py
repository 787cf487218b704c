"""The arguments of plugins (`pluginConfig`), parsed once. Unsupported fields are errors that name them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from apiserver.api.objects import Json
from apiserver.api.selectors.node_selectors import InvalidNodeSelector, NodeSelector, PreferredTerms
from controllers.scheduler.config.configuration import ProfileSettings
from controllers.scheduler.config.fields import ConfigurationError, duration, fields, items, number, one_of
from controllers.scheduler.framework.scores import Shape

Resources = tuple[tuple[str, int], ...]
CPU_AND_MEMORY: Resources = (("cpu", 1), ("memory", 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The arguments of a profile's plugins; the defaults are upstream's."""

    filter_timeout: timedelta | None = timedelta(seconds=10)
    """The limit for the devices of one node; None: no limit."""
    binding_timeout: timedelta = timedelta(seconds=600)
    volume_timeout: timedelta = timedelta(seconds=600)
    """The limit for provisioning and binding volumes."""
    volume_shape: Shape = ()
    """Scores by the share of storage capacity that the pod's volumes would use; () disables them."""
    candidates_percentage: int = 10
    candidates_at_least: int = 100
    hard_affinity_weight: int = 1
    ignores_preferred_terms_of_others: bool = False
    spread: tuple[Json, ...] | None = None
    """Constraints of pods without any; None: the system's defaults."""
    prefers_full_nodes: bool = False
    shape: Shape = ()
    """Scores by utilization for RequestedToCapacityRatio; () for the other strategies."""
    scored: Resources = CPU_AND_MEMORY
    balanced: tuple[str, ...] = ("cpu", "memory")
    """Resources whose utilization is to be balanced."""
    added_affinity: Json | None = None
    """A node affinity of all pods, in addition to their own."""
    ignored: frozenset[str] = frozenset()
    """Extended resources that are not counted, and groups of them (the domain before the slash)."""


DEFAULTS = Arguments()
STORAGE_SCORES: Final = "StorageCapacityScoring"
_EMPTY_FIRST: Final = ((0, 100), (100, 0))


def read_arguments(settings: ProfileSettings, enabled: Callable[[str], bool]) -> Arguments:
    """Parse the arguments of a profile. `enabled` returns the state of a feature gate. Raise ConfigurationError."""
    arguments = Arguments()
    if not enabled("DRASchedulerFilterTimeout"):
        arguments = replace(arguments, filter_timeout=None)
    if enabled(STORAGE_SCORES):
        arguments = replace(arguments, volume_shape=_EMPTY_FIRST)
    for plugin, args in settings.args.items():
        where = f"profile {settings.name}: {plugin}Args"
        reader = _READERS.get(plugin)
        if reader is None:
            if args:
                raise ConfigurationError(f"{where}: {next(iter(args))} is not supported")
            continue
        arguments = reader(arguments, args, where, enabled)
    return arguments


def _dynamic_resources(arguments: Arguments, args: Json, where: str, enabled: Callable[[str], bool]) -> Arguments:
    fields(args, where, {"filterTimeout", "bindingTimeout"})
    if "filterTimeout" in args:
        if not enabled("DRASchedulerFilterTimeout"):
            raise ConfigurationError(f"{where}.filterTimeout: the gate DRASchedulerFilterTimeout is off")
        timeout = duration(args, "filterTimeout", where, timedelta())
        arguments = replace(arguments, filter_timeout=timeout or None)
    if "bindingTimeout" in args:
        if not (enabled("DRADeviceBindingConditions") and enabled("DRAResourceClaimDeviceStatus")):
            raise ConfigurationError(f"{where}.bindingTimeout: the gate DRADeviceBindingConditions is off")
        timeout = duration(args, "bindingTimeout", where, timedelta())
        if timeout < timedelta(seconds=1):
            raise ConfigurationError(f"{where}.bindingTimeout: must be at least 1s")
        arguments = replace(arguments, binding_timeout=timeout)
    return arguments


def _preemption(arguments: Arguments, args: Json, where: str, _: Callable[[str], bool]) -> Arguments:
    percentage, absolute = "minCandidateNodesPercentage", "minCandidateNodesAbsolute"
    fields(args, where, {percentage, absolute})
    arguments = replace(
        arguments,
        candidates_percentage=number(args, percentage, where, 10, highest=100),
        candidates_at_least=number(args, absolute, where, 100),
    )
    if not arguments.candidates_percentage and not arguments.candidates_at_least:
        raise ConfigurationError(f"{where}: {percentage} and {absolute} cannot both be 0")
    return arguments


def _inter_pod_affinity(arguments: Arguments, args: Json, where: str, _: Callable[[str], bool]) -> Arguments:
    ignore = "ignorePreferredTermsOfExistingPods"
    fields(args, where, {"hardPodAffinityWeight", ignore})
    if not isinstance(args.get(ignore, False), bool):
        raise ConfigurationError(f"{where}.{ignore}: must be true or false")
    return replace(
        arguments,
        hard_affinity_weight=number(args, "hardPodAffinityWeight", where, 1, highest=100),
        ignores_preferred_terms_of_others=args.get(ignore, False),
    )


def _spread(arguments: Arguments, args: Json, where: str, _: Callable[[str], bool]) -> Arguments:
    fields(args, where, {"defaultConstraints", "defaultingType"})
    constraints = items(args, "defaultConstraints", where)
    if one_of(args, "defaultingType", where, ("System", "List")) == "System":
        if constraints:
            raise ConfigurationError(f"{where}.defaultConstraints: needs defaultingType List")
        return arguments
    read = []
    for position, item in enumerate(constraints):
        at = f"{where}.defaultConstraints[{position}]"
        raw = fields(item, at, {"maxSkew", "topologyKey", "whenUnsatisfiable", "minDomains"})
        if not raw.get("topologyKey"):
            raise ConfigurationError(f"{at}.topologyKey: is required")
        action = one_of(raw, "whenUnsatisfiable", at, ("DoNotSchedule", "ScheduleAnyway"))
        read.append({**raw, "maxSkew": number(raw, "maxSkew", at, 1, lowest=1), "whenUnsatisfiable": action})
    return replace(arguments, spread=tuple(read))


def _fit(arguments: Arguments, args: Json, where: str, _: Callable[[str], bool]) -> Arguments:
    fields(args, where, {"ignoredResources", "ignoredResourceGroups", "scoringStrategy"})
    ignored = [*items(args, "ignoredResources", where), *items(args, "ignoredResourceGroups", where)]
    if not all(isinstance(name, str) for name in ignored):
        raise ConfigurationError(f"{where}: ignored resources and groups must be strings")
    at = f"{where}.scoringStrategy"
    strategy = fields(args.get("scoringStrategy") or {}, at, {"type", "resources", "requestedToCapacityRatio"})
    kind = one_of(strategy, "type", at, ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
    ratio = fields(strategy.get("requestedToCapacityRatio") or {}, f"{at}.requestedToCapacityRatio", {"shape"})
    resources = []
    for position, item in enumerate(items(strategy, "resources", at)):
        place = f"{at}.resources[{position}]"
        raw = fields(item, place, {"name", "weight"})
        if not isinstance(raw.get("name"), str):
            raise ConfigurationError(f"{place}.name: must be a resource name")
        resources.append((raw["name"], number(raw, "weight", place, 1, lowest=1, highest=100)))
    return replace(
        arguments,
        ignored=frozenset(ignored),
        prefers_full_nodes=kind == "MostAllocated",
        shape=_shape(ratio, f"{at}.requestedToCapacityRatio") if kind == "RequestedToCapacityRatio" else (),
        scored=tuple(resources) or CPU_AND_MEMORY,
    )


def _shape(ratio: Json, where: str) -> Shape:
    """Parse a shape to utilizations, increasing, and scores up to 100: one point in the configuration becomes ten."""
    points: list[tuple[int, int]] = []
    for position, item in enumerate(items(ratio, "shape", where)):
        at = f"{where}.shape[{position}]"
        raw = fields(item, at, {"utilization", "score"})
        utilization = number(raw, "utilization", at, 0, highest=100)
        if points and utilization <= points[-1][0]:
            raise ConfigurationError(f"{at}.utilization: values must be sorted in increasing order")
        points.append((utilization, 10 * number(raw, "score", at, 0, highest=10)))
    if not points:
        raise ConfigurationError(f"{where}.shape: at least one point must be specified")
    return tuple(points)


def _balanced(arguments: Arguments, args: Json, where: str, _: Callable[[str], bool]) -> Arguments:
    fields(args, where, {"resources"})
    names: list[str] = []
    for position, item in enumerate(items(args, "resources", where)):
        at = f"{where}.resources[{position}]"
        raw = fields(item, at, {"name", "weight"})
        if not isinstance(raw.get("name"), str) or raw["name"] in names:
            raise ConfigurationError(f"{at}.name: must be a resource name, without duplicates")
        if number(raw, "weight", at, 1) != 1:
            raise ConfigurationError(f"{at}.weight: must be 1")
        names.append(raw["name"])
    return replace(arguments, balanced=tuple(names) or arguments.balanced)


def _node_affinity(arguments: Arguments, args: Json, where: str, _: Callable[[str], bool]) -> Arguments:
    required, preferred = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))
    fields(args, where, {"addedAffinity"})
    added = fields(args.get("addedAffinity") or {}, f"{where}.addedAffinity", {required, preferred})
    try:
        if added.get(required):
            NodeSelector.strict(added[required])
        if added.get(preferred):
            PreferredTerms.parse(added[preferred])
    except (InvalidNodeSelector, AttributeError, KeyError, TypeError) as error:
        raise ConfigurationError(f"{where}.addedAffinity: {error}") from error
    return replace(arguments, added_affinity=added or None)


def _volume_binding(arguments: Arguments, args: Json, where: str, enabled: Callable[[str], bool]) -> Arguments:
    fields(args, where, {"bindTimeoutSeconds", "shape"})
    arguments = replace(arguments, volume_timeout=timedelta(seconds=number(args, "bindTimeoutSeconds", where, 600)))
    if args.get("shape") is None:
        return arguments
    if not enabled(STORAGE_SCORES):
        raise ConfigurationError(f"{where}.shape: the gate {STORAGE_SCORES} is off")
    return replace(arguments, volume_shape=_shape(args, where))


_READERS: dict[str, Callable[[Arguments, Json, str, Callable[[str], bool]], Arguments]] = {
    "DynamicResources": _dynamic_resources,
    "VolumeBinding": _volume_binding,
    "DefaultPreemption": _preemption,
    "InterPodAffinity": _inter_pod_affinity,
    "PodTopologySpread": _spread,
    "NodeResourcesFit": _fit,
    "NodeResourcesBalancedAllocation": _balanced,
    "NodeAffinity": _node_affinity,
}
