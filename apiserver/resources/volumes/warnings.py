"""Warn the authors of volumes and claims (pkg/api/persistentvolume, pkg/api/persistentvolumeclaim)."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import Path, go_quote
from apiserver.api.helpers.storage_classes import CLASS_ANNOTATION
from apiserver.api.objects import Json
from apiserver.api.values.quantity import Quantity
from apiserver.resources.pods.warnings import OLD_LABELS

__all__ = ["MOUNT_OPTIONS", "claim_warnings", "fractional_storage", "persistent_volume_warnings"]


MOUNT_OPTIONS: Final = "volume.beta.kubernetes.io/mount-options"
_ANNOTATIONS: Final = Path("metadata.annotations")
_OLD_ANNOTATIONS: Final = {
    CLASS_ANNOTATION: 'deprecated since v1.8; use "storageClassName" attribute instead',
    MOUNT_OPTIONS: 'deprecated since v1.31; use "mountOptions" attribute instead',
}
_OLD_SOURCES: Final = {
    "cephfs": "cephfs: deprecated in v1.28, non-functional in v1.31+",
    "photonPersistentDisk": "photonPersistentDisk: deprecated in v1.11, non-functional in v1.16+",
    "scaleIO": "scaleIO: deprecated in v1.16, non-functional in v1.22+",
    "storageos": "storageOS: deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "glusterfs: deprecated in v1.25, non-functional in v1.26+",
    "rbd": "rbd: deprecated in v1.28, non-functional in v1.31+",
}
_RECYCLED: Final = (
    "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
)


def persistent_volume_warnings(obj: Json) -> list[str]:
    spec, annotations = obj["spec"], obj["metadata"].get("annotations") or {}
    warnings = [f"{_ANNOTATIONS.key(key)}: {text}" for key, text in _OLD_ANNOTATIONS.items() if key in annotations]
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        warnings.append(f"spec.persistentVolumeReclaimPolicy: {_RECYCLED}")
    terms = ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ()
    for index, term in enumerate(terms):
        path = Path("spec.nodeAffinity.required.nodeSelectorTerms")[index] / "matchExpressions"
        for position, expression in enumerate(term.get("matchExpressions") or ()):
            key = expression.get("key", "")
            if key in OLD_LABELS:
                warnings.append(f"{path[position] / 'key'}: {key} is {OLD_LABELS[key]}")
    return warnings + [f"spec.{text}" for name, text in _OLD_SOURCES.items() if spec.get(name) is not None]


def claim_warnings(obj: Json) -> list[str]:
    warnings = []
    if CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {}):
        warnings.append(f"{_ANNOTATIONS.key(CLASS_ANNOTATION)}: {_OLD_ANNOTATIONS[CLASS_ANNOTATION]}")
    return warnings + fractional_storage(Path("spec"), obj["spec"])


def fractional_storage(path: Path, spec: Json) -> list[str]:
    """Warn of fractional bytes that a claim requests. `path` is the path of its spec."""
    resources = spec.get("resources") or {}
    return [
        f"{(path / 'resources' / part).key('storage')}: fractional byte value {go_quote(amount)} is invalid, must be an"
        " integer"
        for part in ("requests", "limits")
        if (amount := (resources.get(part) or {}).get("storage")) is not None
        and Quantity.parse(amount).value(-3) % 1000
    ]
