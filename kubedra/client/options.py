"""The options of client methods that the fixture `kube` passes on, for type checkers.

A test compares them with the parameters of the client's methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TypedDict

from kubedra.client.faults import Close, WatchEnd
from kubedra.runtime.objects import Json

__all__ = [
    "AdvanceOptions",
    "ApplyOptions",
    "CallFilters",
    "ControlPlaneOptions",
    "DeleteOptions",
    "FaultOptions",
    "IdleOptions",
    "LogOptions",
    "NamespaceOption",
    "NodeOptions",
    "PatchOptions",
    "RequestFilters",
    "WaitOptions",
]


class NamespaceOption(TypedDict, total=False):
    """The namespace, instead of the client's default."""

    namespace: str | None


class ApplyOptions(TypedDict, total=False):
    """Options of `Client.apply`."""

    force: bool
    strict: bool
    field_manager: str


class LogOptions(NamespaceOption, total=False):
    """Options of `Client.logs`."""

    container: str


class PatchOptions(NamespaceOption, total=False):
    """Options of `Client.patch`."""

    subresource: str


class DeleteOptions(NamespaceOption, total=False):
    """Options of `Client.delete`."""

    grace_period: int | None


class WaitOptions(NamespaceOption, total=False):
    """Options of `Client.wait`, without `virtual`, which the fixture sets."""

    timeout: float | None
    fail_fast: bool


class RequestFilters(TypedDict, total=False):
    """Filters of `Client.requests`."""

    user: str
    user_agent: str
    verb: str
    resource: str
    namespace: str
    name: str
    code: int | None
    limit: int


class CallFilters(TypedDict, total=False):
    """Filters of `Client.driver_calls`."""

    node: str
    driver: str
    method: str
    claim: str
    limit: int


class FaultOptions(TypedDict, total=False):
    """Options of `Client.fault`."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    user: str
    user_agent: str
    path: str
    status: int | None
    retry_after: int | None
    message: str
    close: Close | None
    watch: WatchEnd | None
    watch_after: float
    latency: float
    count: int | None
    probability: float
    seed: int


class IdleOptions(TypedDict, total=False):
    """Options of `Clock.run_until_idle` besides its limit."""

    pause: timedelta


class AdvanceOptions(IdleOptions, total=False):
    """Options of `Clock.advance`: the units of a timedelta."""

    days: float
    seconds: float
    microseconds: float
    milliseconds: float
    minutes: float
    hours: float
    weeks: float


class NodeOptions(TypedDict, total=False):
    """Options of `Client.add_node` that only emulated nodes have."""

    profile: str
    slices_of: str
    capacity: Mapping[str, str] | None
    taints: Iterable[Json]


class ControlPlaneOptions(TypedDict, total=False):
    """Options of `ControlPlane` that the marker `kube` takes."""

    nodes: int
    devices: str
    controllers: bool
    storage: str
    data_dir: Path | str | None
    emulated_version: str | None
    feature_gates: str | Mapping[str, object] | None
    runtime_config: str | Mapping[str, object] | None
    clock: str
    seed: int | None
    jobs_exit_after: str
    history: str
    args: Sequence[str]
    start_patience: float
