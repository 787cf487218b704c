"""Group versions of DeleteOptions and WatchEvent, as documents list them.

They are those of upstream's Go schemes in 1.36, served or not. Facts: api/openapi-spec/swagger.json, and the documents
of custom resources.
"""

from __future__ import annotations

from typing import Final

__all__ = ["CLIENT", "SERVER"]

_CLIENT: Final = {
    "": "v1",
    "admissionregistration.k8s.io": "v1 v1alpha1 v1beta1",
    "apps": "v1 v1beta1 v1beta2",
    "authentication.k8s.io": "v1 v1alpha1 v1beta1",
    "authorization.k8s.io": "v1 v1beta1",
    "autoscaling": "v1 v2",
    "batch": "v1 v1beta1",
    "certificates.k8s.io": "v1 v1alpha1 v1beta1",
    "coordination.k8s.io": "v1 v1alpha2 v1beta1",
    "discovery.k8s.io": "v1 v1beta1",
    "events.k8s.io": "v1 v1beta1",
    "extensions": "v1beta1",
    "flowcontrol.apiserver.k8s.io": "v1 v1beta1 v1beta2 v1beta3",
    "internal.apiserver.k8s.io": "v1alpha1",
    "networking.k8s.io": "v1 v1beta1",
    "node.k8s.io": "v1 v1alpha1 v1beta1",
    "policy": "v1 v1beta1",
    "rbac.authorization.k8s.io": "v1 v1alpha1 v1beta1",
    "resource.k8s.io": "v1 v1alpha3 v1beta1 v1beta2",
    "scheduling.k8s.io": "v1 v1alpha2 v1beta1",
    "storage.k8s.io": "v1 v1alpha1 v1beta1",
    "storagemigration.k8s.io": "v1beta1",
}
_SERVER: Final = _CLIENT | {
    "admission.k8s.io": "v1 v1beta1",
    "apiextensions.k8s.io": "v1 v1beta1",
    "apiregistration.k8s.io": "v1 v1beta1",
    "imagepolicy.k8s.io": "v1alpha1",
}


def _pairs(known: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((group, version) for group in sorted(known) for version in known[group].split())


#: Group versions of client schemes, in the documents of custom resources.
CLIENT: Final = _pairs(_CLIENT)
#: Group versions of the server's scheme, in the document of version 2.
SERVER: Final = _pairs(_SERVER)
