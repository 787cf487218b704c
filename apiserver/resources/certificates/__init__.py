"""Kinds of certificates.k8s.io: certificate requests and trust bundles.

Rules: pkg/apis/certificates/validation, pkg/registry/certificates.
"""

from __future__ import annotations

from typing import Final

from apiserver.registry.definition.resource import Resource
from apiserver.resources.certificates.bundles import CLUSTER_TRUST_BUNDLES
from apiserver.resources.certificates.podrequests import POD_CERTIFICATE_REQUESTS
from apiserver.resources.certificates.requests import CERTIFICATE_SIGNING_REQUESTS

__all__ = ["CERTIFICATES"]

CERTIFICATES: Final[tuple[Resource, ...]] = (
    CERTIFICATE_SIGNING_REQUESTS, CLUSTER_TRUST_BUNDLES, POD_CERTIFICATE_REQUESTS,
)  # fmt: skip
