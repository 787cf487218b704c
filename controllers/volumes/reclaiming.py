"""What the binder itself does with a volume whose claim is gone: it keeps it, leaves it to its provisioner, deletes it
or cannot.

There are no volume plugins here: a host path below /tmp has nothing in it that could be deleted, all other volumes of
old kinds fail as they fail upstream where their plugin is missing. Nothing can be recycled.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

from controllers.runtime.kinds import Json
from controllers.volumes import PROVISIONED_BY, annotations_of

_TEMPORARY: Final = re.compile(r"/tmp/.+")  # noqa: S108 - the rule of upstream's deleter
#: Sources whose plugins upstream's controllers have, but cannot delete with.
_KNOWN: Final = ("nfs", "local")


class Fate(Enum):
    """What is done."""

    KEPT = auto()
    """Retained, or deleted by somebody else."""
    DELETED = auto()


def policy(volume: Json) -> str:
    """What is to become of the volume."""
    return volume["spec"].get("persistentVolumeReclaimPolicy") or "Retain"


def fate(volume: Json) -> Fate | tuple[str, str]:
    """What the binder does, or why it fails: reason and text of the event."""
    if policy(volume) == "Recycle":
        return "VolumeFailedRecycle", "No recycler plugin found for the volume!"
    if policy(volume) != "Delete":
        return Fate.KEPT
    provisioner = annotations_of(volume).get(PROVISIONED_BY, "")
    if provisioner.startswith("kubernetes.io/"):
        return "VolumeFailedDelete", f"no volume plugin matched name: {provisioner}"
    spec = volume["spec"]
    if provisioner or spec.get("csi") is not None:
        return Fate.KEPT
    path = (spec.get("hostPath") or {}).get("path")
    if path is None:
        what = "no deletable volume plugin matched" if any(name in spec for name in _KNOWN) else _NO_PLUGIN
        text = f'error getting deleter volume plugin for volume "{volume["metadata"]["name"]}": {what}'
        return "VolumeFailedDelete", text
    if not _TEMPORARY.match(path):
        return "VolumeFailedDelete", f"host_path deleter only supports /tmp/.+ but received provided {path}"
    return Fate.DELETED


_NO_PLUGIN: Final = "no volume plugin matched"
