"""PV protection: a deleted volume stays while it is bound. Facts: upstream's pkg/controller/volume/pvprotection."""

from __future__ import annotations

from apiserver.api.objects import Json
from controllers.options.options import Options
from controllers.protection.protection import Protection
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import VOLUMES

NAME = "persistentvolume-protection-controller"
FINALIZER = "kubernetes.io/pv-protection"


def build(client: Client, informers: Informers, options: Options) -> VolumeProtection:
    """Build the component for the manager."""
    return VolumeProtection(NAME, VOLUMES, FINALIZER, client, informers, queue="pvprotection", adds=True)


class VolumeProtection(Protection):
    """The PV protection controller."""

    async def is_in_use(self, key: str, obj: Json) -> bool:
        return (obj.get("status") or {}).get("phase") == "Bound"
