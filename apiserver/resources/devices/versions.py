"""Build the versions of the stable kinds of resource.k8s.io."""

from __future__ import annotations

from collections.abc import Callable

from apiserver.api.objects import Json
from apiserver.api.types.resource import v1, v1beta1, v1beta2
from apiserver.registry.definition.resource import Version, prerelease, same_form

__all__ = ["versions_of"]


def versions_of(
    kind: str, *, to_hub: Callable[[Json], Json] = same_form, from_hub: Callable[[Json], Json] = same_form
) -> tuple[Version, ...]:
    """Return v1, v1beta2 and v1beta1 of a kind; `to_hub` and `from_hub` convert v1beta1."""
    return (
        Version(name="v1", schema=getattr(v1, kind), introduced=(1, 34)),
        prerelease("v1beta2", getattr(v1beta2, kind), (1, 33)),
        prerelease("v1beta1", getattr(v1beta1, kind), (1, 32), to_hub=to_hub, from_hub=from_hub),
    )
