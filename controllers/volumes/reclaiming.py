"""The binder's decision on a released volume: keep it, leave it to its provisioner, delete it, or fail.

There are no volume plugins here. A host path below /tmp has no content to delete. All other in-tree volumes fail like
upstream without their plugin. Nothing can be recycled.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

from apiserver.api.objects import Json
from controllers.volumes import PROVISIONED_BY, annotations_of

_TEMPORARY: Final = re.compile(r"/tmp/.+")  # noqa: S108 - the rule of upstream's deleter
#: Sources with a plugin upstream that cannot delete.
_KNOWN: Final = ("nfs", "local")


class ReclaimDecision(Enum):
    """The decision."""

    KEPT = auto()
    """Retained, or deleted by the provisioner."""
    DELETED = auto()


def policy(volume: Json) -> str:
    """Return the reclaim policy of the volume."""
    return volume["spec"].get("persistentVolumeReclaimPolicy") or "Retain"


def decide_reclaim(volume: Json) -> ReclaimDecision | tuple[str, str]:
    """Return the decision, or reason and message of the failure event."""
    if policy(volume) == "Recycle":
        return "VolumeFailedRecycle", "No recycler plugin found for the volume!"
    if policy(volume) != "Delete":
        return ReclaimDecision.KEPT
    provisioner = annotations_of(volume).get(PROVISIONED_BY, "")
    if provisioner.startswith("kubernetes.io/"):
        return "VolumeFailedDelete", f"no volume plugin matched name: {provisioner}"
    spec = volume["spec"]
    if provisioner or spec.get("csi") is not None:
        return ReclaimDecision.KEPT
    path = (spec.get("hostPath") or {}).get("path")
    if path is None:
        what = "no deletable volume plugin matched" if any(name in spec for name in _KNOWN) else _NO_PLUGIN
        text = f'error getting deleter volume plugin for volume "{volume["metadata"]["name"]}": {what}'
        return "VolumeFailedDelete", text
    if not _TEMPORARY.match(path):
        return "VolumeFailedDelete", f"host_path deleter only supports /tmp/.+ but received provided {path}"
    return ReclaimDecision.DELETED


_NO_PLUGIN: Final = "no volume plugin matched"
