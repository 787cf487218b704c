"""What feature gates have to say of the rules for pods and for templates of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from apiserver.api.helpers.tolerations import COMPARISON_GATE, COMPARISONS
from apiserver.api.objects import Json

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context

__all__ = ["PodGates", "pod_gates"]


class PodGates(NamedTuple):
    """`compares`: tolerations may compare numbers; `strict`: addresses in forms that not everybody reads in the same
    way are refused.
    """

    compares: bool = False
    strict: bool = False


def pod_gates(ctx: Context, old: Json | None) -> PodGates:
    """`old` is the stored spec: tolerations that compare numbers already may go on doing so."""
    compares = ctx.features.enabled(COMPARISON_GATE) or (
        old is not None and any(each.get("operator") in COMPARISONS for each in old.get("tolerations") or ())
    )
    return PodGates(compares, ctx.features.enabled("StrictIPCIDRValidation"))
