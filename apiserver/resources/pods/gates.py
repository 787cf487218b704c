"""Select the optional rules of pods and templates by feature gates."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from apiserver.api.helpers.tolerations import COMPARISON_GATE, COMPARISONS
from apiserver.api.objects import Json

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context

__all__ = ["PodGates", "pod_gates"]


class PodGates(NamedTuple):
    """The gated rules of pods.

    `compares`: tolerations may compare numbers. `strict`: addresses in ambiguous notations are rejected.
    """

    compares: bool = False
    strict: bool = False


def pod_gates(ctx: Context, old: Json | None) -> PodGates:
    """Return the gated rules. `old` is the stored spec, whose numeric tolerations may stay."""
    compares = ctx.features.enabled(COMPARISON_GATE) or (
        old is not None and any(each.get("operator") in COMPARISONS for each in old.get("tolerations") or ())
    )
    return PodGates(compares, ctx.features.enabled("StrictIPCIDRValidation"))
