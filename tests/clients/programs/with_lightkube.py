"""lightkube: typed, on httpx."""

import importlib.metadata

from lightkube import ApiError, Client, KubeConfig
from lightkube.core.client import PatchType
from lightkube.resources.core_v1 import ConfigMap, Namespace
from lightkube.resources.resource_v1 import ResourceClaim, ResourceSlice
from steps import (
    APPLIED,
    JSON,
    MANAGER,
    MERGE,
    NAME,
    NAMESPACE,
    SECURE,
    STRATEGIC,
    WATCHED,
    claim,
    config_map,
    live,
    play,
)

client = Client(namespace=NAMESPACE, field_manager="lightkube")


def follow():
    listed = client.list(ConfigMap)
    list(listed)
    stream = client.watch(ConfigMap, resource_version=listed.resourceVersion)
    return live(
        (event for event, found in stream if found.metadata.name == WATCHED),
        (
            lambda: client.create(ConfigMap.from_dict(config_map(WATCHED))),
            lambda: client.patch(ConfigMap, WATCHED, MERGE, patch_type=PatchType.MERGE),
            lambda: client.delete(ConfigMap, WATCHED),
        ),
    )


def _patch(body, form):
    return client.patch(ConfigMap, NAME, body, patch_type=form).data


def apply():
    applied = ConfigMap.from_dict(APPLIED)
    try:
        client.apply(applied, field_manager=MANAGER)
    except ApiError as refused:
        forced = client.apply(applied, field_manager=MANAGER, force=True)
        return {"refused": refused.status.code, "forced": forced.data}


def devices():
    made = client.create(ResourceClaim.from_dict(claim()))
    (published,) = client.list(ResourceSlice)
    return {
        "class": made.spec.devices.requests[0].exactly.deviceClassName,
        "devices": [device.name for device in published.spec.devices],
    }


def delete():
    client.delete(ConfigMap, NAME)
    try:
        client.get(ConfigMap, NAME)
    except ApiError as gone:
        return gone.status.code


play(
    importlib.metadata.version("lightkube"),
    {
        "create": lambda: client.create(ConfigMap.from_dict(config_map(a="1"))).data,
        "list": lambda: [found.metadata.name for found in client.list(ConfigMap)],
        "watch": follow,
        "merge": lambda: _patch(MERGE, PatchType.MERGE),
        "strategic": lambda: _patch(STRATEGIC, PatchType.STRATEGIC),
        "json": lambda: _patch(JSON, PatchType.JSON),
        "apply": apply,
        "devices": devices,
        "tls": lambda: Client(config=KubeConfig.from_file(SECURE)).get(Namespace, "default").metadata.name,
        "delete": delete,
    },
)
