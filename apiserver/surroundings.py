"""What a process gives its server besides the settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from apiserver.components.components import Components

if TYPE_CHECKING:
    from apiserver.http.sinks.jsonlines import JsonLines

__all__ = ["Surroundings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """A server alone, whose process announces nothing, unless they say otherwise. The server closes the logs."""

    components: Components = field(default_factory=Components)
    #: Whether the process has announced the server, as far as that is its task.
    announced: Callable[[], bool] = lambda: True
    request_log: JsonLines | None = None
    audit_log: JsonLines | None = None
