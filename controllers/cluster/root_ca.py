"""Publishes the ConfigMap kube-root-ca.crt, the API server's CA bundle, in every namespace.

Does nothing if the server has no TLS. Facts: pkg/controller/certificates/rootcacertpublisher.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime import clock
from apiserver.runtime.metrics import Counter, Family, Histogram, exponential
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import CONFIG_MAPS, NAMESPACES

NAME: Final = "root-ca-certificate-publisher-controller"
CONFIG_MAP: Final = "kube-root-ca.crt"
_DESCRIPTION: Final = "kubernetes.io/description"
_TEXT: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the"
    " internal service IP or kubernetes.default.svc."
    " No other usage is guaranteed across distributions of Kubernetes clusters."
)


def build(client: Client, informers: Informers, options: Options) -> RootCertificates:
    """Build the component for the manager."""
    return RootCertificates(client, informers, options.root_ca)


class RootCertificates(ControllerComponent):
    """The CA publisher. Keys are namespaces."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, root_ca: str) -> None:
        self._client, self._data = client.for_controller("root-ca-cert-publisher"), {"ca.crt": root_ca}
        self._controller = Controller(NAME, self.reconcile, queue="root_ca_cert_publisher")
        self._syncs = Counter("root_ca_cert_publisher_sync_total", "Reconciled namespaces.", ("code",))
        self._durations = Histogram(
            "root_ca_cert_publisher_sync_duration_seconds",
            "Duration of reconciling a namespace.",
            ("code",),
            exponential(0.001, 2, 15),
        )
        if not root_ca:
            return
        self._namespaces = informers.of(NAMESPACES)
        self._maps = informers.of(CONFIG_MAPS, field_selector=f"metadata.name={CONFIG_MAP}")
        self._controller.follow(self._namespaces)
        self._controller.follow(self._maps, lambda found: (found["metadata"]["namespace"],))

    @property
    def metrics(self) -> Sequence[Family]:
        return (*super().metrics, self._syncs, self._durations)

    async def reconcile(self, namespace: str) -> None:
        elapsed, code = clock.stopwatch(), 500
        began = elapsed()
        try:
            await self._publish(namespace)
            code = 200
        except StatusError as error:
            code = error.code
            raise
        finally:
            self._syncs.inc(str(code))
            self._durations.observe(elapsed() - began, str(code))

    async def _publish(self, namespace: str) -> None:
        known = self._namespaces.get(namespace)
        if known is None or known["metadata"].get("deletionTimestamp"):
            return
        found = self._maps.get(f"{namespace}/{CONFIG_MAP}")
        try:
            if found is None:
                metadata = {"name": CONFIG_MAP, "namespace": namespace, "annotations": {_DESCRIPTION: _TEXT}}
                body: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": self._data}
                await self._client.create(CONFIG_MAPS, body)
            elif found.get("data") != self._data or not (found["metadata"].get("annotations") or {}).get(_DESCRIPTION):
                annotations = {**(found["metadata"].get("annotations") or {}), _DESCRIPTION: _TEXT}
                metadata = {**found["metadata"], "annotations": annotations}
                await self._client.update(CONFIG_MAPS, {**found, "metadata": metadata, "data": self._data})
        except Exception as error:
            if not is_reason(error, "AlreadyExists", "NotFound", "Forbidden"):
                raise
