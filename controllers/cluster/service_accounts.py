"""Creates the service account `default` in every namespace. Facts: upstream's pkg/controller/serviceaccount."""

from __future__ import annotations

from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import NAMESPACES, SERVICE_ACCOUNTS

NAME = "serviceaccount-controller"
_DEFAULT = "default"


def build(client: Client, informers: Informers, options: Options) -> ServiceAccounts:
    """Build the component for the manager."""
    return ServiceAccounts(client, informers)


class ServiceAccounts(ControllerComponent):
    """The service account controller. Keys are namespaces."""

    name = NAME

    def __init__(self, client: Client, informers: Informers) -> None:
        self._client = client.for_controller("service-account-controller")
        self._namespaces, self._accounts = informers.of(NAMESPACES), informers.of(SERVICE_ACCOUNTS)
        self._controller = Controller(NAME, self.reconcile)
        self._controller.follow(self._namespaces)
        self._controller.follow(self._accounts, lambda account: (account["metadata"]["namespace"],))

    async def reconcile(self, namespace: str) -> None:
        known = self._namespaces.get(namespace)
        if (
            known is None
            or known["metadata"].get("deletionTimestamp")
            or self._accounts.get(f"{namespace}/{_DEFAULT}") is not None
        ):
            return
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _DEFAULT, "namespace": namespace}}
        try:
            await self._client.create(SERVICE_ACCOUNTS, body)
        except Exception as error:
            if not is_reason(error, "AlreadyExists", "NotFound", "Forbidden"):
                raise
