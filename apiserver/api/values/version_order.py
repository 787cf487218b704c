"""The order of API versions by their names."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["version_order"]

_VERSION: Final = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")
_STAGES: Final = (None, "beta", "alpha")


def version_order(name: str) -> tuple[int, int, int, str]:
    """Return a sort key: v2, v1, v1beta2, v1beta1, v1alpha3, then any other name.

    Source: apimachinery/pkg/version.CompareKubeAwareVersionStrings.
    """
    parts = _VERSION.fullmatch(name)
    if parts is None:
        return len(_STAGES), 0, 0, name
    major, stage, minor = parts.groups()
    return _STAGES.index(stage), -int(major), -int(minor or 0), ""
