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
    `mounts_labels`: volumes may get their SELinux label by mount options.
    """

    compares: bool = False
    strict: bool = False
    mounts_labels: bool = False


def pod_gates(ctx: Context, old: Json | None) -> PodGates:
    """Return the gated rules. `old` is the stored spec, whose numeric tolerations and SELinux policy may stay."""
    compares = ctx.features.enabled(COMPARISON_GATE) or (
        old is not None and any(each.get("operator") in COMPARISONS for each in old.get("tolerations") or ())
    )
    has_policy = old is not None and (old.get("securityContext") or {}).get("seLinuxChangePolicy") is not None
    mounts_labels = ctx.features.enabled("SELinuxMount") or has_policy
    return PodGates(compares, ctx.features.enabled("StrictIPCIDRValidation"), mounts_labels)
