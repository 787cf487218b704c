"""What the routes under `/-/` need of the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apiserver.http.admin.idle import Resting
from apiserver.http.sinks.ring import Ring
from apiserver.registry.definition.dropped_fields import Loss
from apiserver.request.messages import Request

if TYPE_CHECKING:
    from apiserver.http.handlers.faults import Faults


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """The server, as its routes see it. A router that needs more adds a field.

    version     the release of kubedra
    allowed     (request) "" where its sender, or whoever it impersonates, may use the routes, else why not
    info        what `/-/info` shows besides the version
    reset       empties the store; (objects gone, version now)
    dropped     (kind, namespace, name) the fields that feature gates dropped
    rest        looks whether anything is left to happen
    explain     what explains pods, claims and nodes (kind, namespace, name); None where no components run here
    requests    the latest requests
    faults      the faults to inject
    """

    version: str
    allowed: Callable[[Request], Awaitable[str]]
    info: Callable[[], Mapping[str, Any]]
    reset: Callable[[], Awaitable[tuple[int, int]]]
    dropped: Callable[[str, str, str], list[Loss]]
    rest: Callable[[], Awaitable[Resting]]
    explain: Callable[[], Callable[[str, str, str], Awaitable[dict[str, Any]]] | None]
    requests: Ring
    faults: Faults
