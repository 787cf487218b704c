"""Audiences of the pod tokens that a node may request.

They are those of the pod's volumes, those of the CSI drivers of these volumes, and those that an authorizer allows.
Facts: plugin/pkg/admission/noderestriction, csi-translation-lib.
"""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import go_quote
from apiserver.api.errors.status import not_found
from apiserver.api.objects import Json
from apiserver.registry.definition.context import Context
from apiserver.registry.store.admission import Attributes, forbidden

__all__ = ["check_audiences"]


#: CSI drivers that serve volumes of in-tree sources.
_DRIVERS: Final = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "azureDisk": "disk.csi.azure.com",
    "azureFile": "file.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "portworxVolume": "pxd.portworx.com",
    "vsphereVolume": "csi.vsphere.vmware.com",
}
_VERB: Final = "request-serviceaccounts-token-audience"


class _LookupFailed(Exception):
    """Error: an object needed to find a driver is missing. The text names it."""


async def check_audiences(attributes: Attributes, audiences: list[str], pod: Json) -> None:
    """Check the requested audiences. Raise 403."""
    if len(audiences) > 1:
        raise forbidden(attributes, "node may only request 0 or 1 audiences")
    ctx, audience = attributes.ctx, audiences[0] if audiences else ""
    unknown = []
    for volume in pod["spec"].get("volumes") or ():
        try:
            if _names(ctx, pod, volume, audience):
                return
        except _LookupFailed as error:
            unknown.append(str(error))
    if unknown:
        text = unknown[0] if len(unknown) == 1 else f"[{', '.join(dict.fromkeys(unknown))}]"
        raise forbidden(attributes, f"error validating audience {go_quote(audience)}: {text}")
    if not await ctx.is_allowed(_VERB, "", audience, "", attributes.namespace, attributes.name):
        text = (
            f"audience {go_quote(audience)} not found in pod spec volume, {ctx.user.name} is not authorized to request"
            " tokens for this audience"
        )
        raise forbidden(attributes, text)


def _names(ctx: Context, pod: Json, volume: Json, audience: str) -> bool:
    """Return whether a volume uses the audience."""
    for source in (volume.get("projected") or {}).get("sources") or ():
        token = source.get("serviceAccountToken")
        if token is not None and token.get("audience", "") == audience:
            return True
    driver = _driver(ctx, pod, volume)
    if not driver:
        return False
    requests = _get_object(ctx, "storage.k8s.io", "csidrivers", driver)["spec"].get("tokenRequests") or ()
    return any(request.get("audience", "") == audience for request in requests)


def _driver(ctx: Context, pod: Json, volume: Json) -> str:
    """Return the CSI driver of a pod's volume; "" if there is none."""
    meta, claim = pod["metadata"], (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
    if (volume.get("ephemeral") or {}).get("volumeClaimTemplate"):
        claim = f"{meta['name']}-{volume['name']}"
    if not claim:
        return _get_driver(volume)
    bound = _get_object(ctx, "", "persistentvolumeclaims", claim, meta["namespace"])["spec"].get("volumeName", "")
    return _get_driver(_get_object(ctx, "", "persistentvolumes", bound)["spec"])


def _get_driver(sources: Json) -> str:
    if sources.get("csi"):
        driver: str = sources["csi"].get("driver", "")
        return driver
    return next((driver for source, driver in _DRIVERS.items() if sources.get(source)), "")


def _get_object(ctx: Context, group: str, plural: str, name: str, namespace: str = "") -> Json:
    obj = ctx.lookup(group, plural, namespace, name)
    if obj is None:
        raise _LookupFailed(not_found(plural.removesuffix("s"), group, name).message)
    return obj
