"""References from pods to secrets, config maps and volume claims, and from volumes to secrets.

Facts: pkg/api/v1/pod (VisitPodSecretNames, VisitPodConfigmapNames), pkg/api/v1/persistentvolume (VisitPVSecretNames).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from apiserver.api.objects import Json

__all__ = ["config_map_names", "secret_names", "volume_claim_names", "volume_secrets"]


#: Volume sources by the field with their secret reference.
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
    yield from _get_names(spec.get("imagePullSecrets"))
    yield from _of_containers(spec, "secretRef", "secretKeyRef")
    for volume in spec.get("volumes") or ():
        yield from filter(
            None, ((volume.get("azureFile") or {}).get("secretName"), (volume.get("secret") or {}).get("secretName"))
        )
        yield from _get_names((volume.get(source) or {}).get(field) for source, field in _SECRET_REFS.items())
        yield from _get_names(source.get("secret") for source in (volume.get("projected") or {}).get("sources") or ())


def config_map_names(spec: Json) -> Iterator[str]:
    yield from _of_containers(spec, "configMapRef", "configMapKeyRef")
    for volume in spec.get("volumes") or ():
        yield from _get_names((volume.get("configMap"),))
        yield from _get_names(
            source.get("configMap") for source in (volume.get("projected") or {}).get("sources") or ()
        )


def volume_claim_names(pod: Json) -> Iterator[str]:
    """Yield the claims that a pod's volumes name, and the claims of its ephemeral volumes."""
    for volume in pod["spec"].get("volumes") or ():
        yield from filter(None, ((volume.get("persistentVolumeClaim") or {}).get("claimName"),))
        if "ephemeral" in volume:
            yield f"{pod['metadata']['name']}-{volume['name']}"


#: Sources of persistent volumes by the namespace of their secret: the claim's unless the reference names one, always
#: the reference's, and the fields of a CSI source that nodes use.
_CLAIM_SECRETS: Final = ("cephfs", "flexVolume", "rbd", "scaleIO", "iscsi")
_OWN_SECRETS: Final = ("cinder", "storageos")
_CSI_SECRETS: Final = ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef")


def volume_secrets(spec: Json) -> Iterator[tuple[str, str]]:
    """Yield (namespace, name) of each secret that a node needs for a persistent volume."""
    claim_namespace = (spec.get("claimRef") or {}).get("namespace", "")
    azure = spec.get("azureFile") or {}
    if azure.get("secretName"):
        yield azure.get("secretNamespace") or claim_namespace, azure["secretName"]
    for source in _CLAIM_SECRETS:
        yield from _get_reference((spec.get(source) or {}).get("secretRef"), claim_namespace)
    for source in _OWN_SECRETS:
        yield from _get_reference((spec.get(source) or {}).get("secretRef"), "")
    for field in _CSI_SECRETS:
        yield from _get_reference((spec.get("csi") or {}).get(field), "")


def _get_reference(reference: Json | None, namespace: str) -> Iterator[tuple[str, str]]:
    if reference:
        yield reference.get("namespace") or namespace, reference.get("name", "")


def _get_names(references: Any) -> Iterator[str]:
    for reference in references or ():
        if reference and reference.get("name"):
            yield reference["name"]


def _of_containers(spec: Json, whole: str, key: str) -> Iterator[str]:
    """Yield the references in containers' environments, to whole objects and to single keys."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(field) or ():
            yield from _get_names(source.get(whole) for source in container.get("envFrom") or ())
            yield from _get_names((variable.get("valueFrom") or {}).get(key) for variable in container.get("env") or ())
