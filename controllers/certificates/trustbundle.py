"""Publishes the ClusterTrustBundle of the API server's certificate: one object, named by its content.

Enabled with the gate ClusterTrustBundle if the server serves certificates.k8s.io/v1beta1. Facts: upstream's
pkg/controller/certificates/clustertrustbundlepublisher.
"""

from __future__ import annotations

import hashlib
from typing import Final

from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import TRUST_BUNDLES

NAME: Final = "kube-apiserver-serving-clustertrustbundle-publisher-controller"
SIGNER: Final = "kubernetes.io/kube-apiserver-serving"
_GATE: Final = "ClusterTrustBundle"
_KEY: Final = "bundle"


def build(client: Client, informers: Informers, options: Options) -> TrustBundle:
    """Build the component for the manager."""
    return TrustBundle(client, informers, options)


class TrustBundle(ControllerComponent):
    """The publisher. It has one key for all objects of the signer."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        self._client = client.for_controller("kube-apiserver-serving-clustertrustbundle-publisher")
        self._anchors = options.root_ca
        digest = hashlib.sha256(self._anchors.encode()).hexdigest()[:24]
        self._name = f"{SIGNER.replace('/', ':')}:{digest}"
        self._controller = Controller(NAME, self.reconcile, queue="ca_cert_publisher_cluster_trust_bundles")
        if self._anchors and options.features.enabled(_GATE):
            self._bundles = informers.of(TRUST_BUNDLES, field_selector=f"spec.signerName={SIGNER}")
            self._controller.follow(self._bundles, lambda _: (_KEY,))
            self._controller.queue.add(_KEY)

    async def reconcile(self, _: str) -> None:
        found = self._bundles.get(self._name)
        spec = {"signerName": SIGNER, "trustBundle": self._anchors}
        try:
            if found is None:
                metadata = {"name": self._name}
                body = {"apiVersion": TRUST_BUNDLES.api_version, "kind": TRUST_BUNDLES.kind, "metadata": metadata}
                await self._client.create(TRUST_BUNDLES, {**body, "spec": spec})
            elif found["spec"] != spec:
                await self._client.update(TRUST_BUNDLES, {**found, "spec": spec})
        except Exception as error:
            if not is_reason(error, "AlreadyExists"):
                raise
        for name in list(self._bundles.objects):
            if name != self._name:
                await self._delete(name)

    async def _delete(self, name: str) -> None:
        try:
            await self._client.delete(TRUST_BUNDLES, name)
        except Exception as error:
            if not is_reason(error, "NotFound"):
                raise
