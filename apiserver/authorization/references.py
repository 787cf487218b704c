"""Secrets and config maps that a pod's spec names, wherever it names them. Facts: pkg/api/v1/pod (VisitPodSecretNames,
VisitPodConfigmapNames).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

__all__ = ["config_map_names", "secret_names"]

Json = dict[str, Any]

#: Volume sources whose secret is a reference of this field.
_SECRET_REFS: Final = {
    "cephfs": "secretRef",
    "cinder": "secretRef",
    "flexVolume": "secretRef",
    "rbd": "secretRef",
    "scaleIO": "secretRef",
    "iscsi": "secretRef",
    "storageos": "secretRef",
    "csi": "nodePublishSecretRef",
}


def secret_names(spec: Json) -> Iterator[str]:
    yield from _named(spec.get("imagePullSecrets"))
    yield from _of_containers(spec, "secretRef", "secretKeyRef")
    for volume in spec.get("volumes") or ():
        yield from filter(
            None, ((volume.get("azureFile") or {}).get("secretName"), (volume.get("secret") or {}).get("secretName"))
        )
        yield from _named((volume.get(source) or {}).get(field) for source, field in _SECRET_REFS.items())
        yield from _named(source.get("secret") for source in (volume.get("projected") or {}).get("sources") or ())


def config_map_names(spec: Json) -> Iterator[str]:
    yield from _of_containers(spec, "configMapRef", "configMapKeyRef")
    for volume in spec.get("volumes") or ():
        yield from _named((volume.get("configMap"),))
        yield from _named(source.get("configMap") for source in (volume.get("projected") or {}).get("sources") or ())


def _named(references: Any) -> Iterator[str]:
    for reference in references or ():
        if reference and reference.get("name"):
            yield reference["name"]


def _of_containers(spec: Json, whole: str, key: str) -> Iterator[str]:
    """References of environments: of whole objects and of single keys."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(field) or ():
            yield from _named(source.get(whole) for source in container.get("envFrom") or ())
            yield from _named((variable.get("valueFrom") or {}).get(key) for variable in container.get("env") or ())
