"""The official client's sister for asyncio."""

import asyncio
import importlib.metadata

from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client.exceptions import ApiException
from kubernetes_asyncio.leaderelection import electionconfig
from kubernetes_asyncio.leaderelection.leaderelection import LeaderElection
from kubernetes_asyncio.leaderelection.resourcelock.leaselock import LeaseLock
from steps import APPLIED, JSON, MANAGER, MERGE, NAME, NAMESPACE, SECURE, STRATEGIC, WATCHED, claim, config_map, play

_made = []


async def _api():
    if not _made:
        await config.load_kube_config()
        _made.append(client.ApiClient())
    return _made[0]


async def _core():
    return client.CoreV1Api(await _api())


async def create():
    return (await (await _core()).create_namespaced_config_map(NAMESPACE, config_map(a="1"))).data


async def names():
    return [found.metadata.name for found in (await (await _core()).list_namespaced_config_map(NAMESPACE)).items]


async def follow():
    core, seen = await _core(), asyncio.Queue()
    version = (await core.list_namespaced_config_map(NAMESPACE)).metadata.resource_version

    async def read() -> None:
        stream = watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, resource_version=version)
        async for event in stream:
            if event["object"].metadata.name == WATCHED:
                seen.put_nowait(event["type"])

    reading = asyncio.create_task(read())
    await core.create_namespaced_config_map(NAMESPACE, config_map(WATCHED))
    came = [await seen.get()]
    await core.patch_namespaced_config_map(WATCHED, NAMESPACE, MERGE)
    came.append(await seen.get())
    await core.delete_namespaced_config_map(WATCHED, NAMESPACE)
    came.append(await seen.get())
    reading.cancel()
    return came


async def _patch(body, form, **more):
    kind = f"application/{form}"
    core = await _core()
    return (await core.patch_namespaced_config_map(NAME, NAMESPACE, body, _content_type=kind, **more)).data


async def apply():
    applied = {"form": "apply-patch+yaml", "field_manager": MANAGER}
    try:
        await _patch(APPLIED, **applied)
    except ApiException as refused:
        return {"refused": refused.status, "forced": await _patch(APPLIED, **applied, force=True)}


async def elect():
    leads = asyncio.Event()
    lock = LeaseLock("leader", NAMESPACE, "me", await _api())

    async def lead() -> None:
        leads.set()

    chosen = electionconfig.Config(lock, 15, 10, 5, lead, lead)
    running = asyncio.create_task(LeaderElection(chosen).run())
    await leads.wait()
    running.cancel()
    lease = await client.CoordinationV1Api(await _api()).read_namespaced_lease("leader", NAMESPACE)
    return lease.spec.holder_identity


async def devices():
    api = client.ResourceV1Api(await _api())
    made = await api.create_namespaced_resource_claim(NAMESPACE, claim())
    (published,) = (await api.list_resource_slice()).items
    return {
        "class": made.spec.devices.requests[0].exactly.device_class_name,
        "devices": [device.name for device in published.spec.devices],
    }


async def secure():
    async with await config.new_client_from_config(SECURE) as other:
        return (await client.CoreV1Api(other).read_namespace("default")).metadata.name


async def delete():
    core = await _core()
    await core.delete_namespaced_config_map(NAME, NAMESPACE)
    try:
        await core.read_namespaced_config_map(NAME, NAMESPACE)
    except ApiException as gone:
        return gone.status


play(
    importlib.metadata.version("kubernetes_asyncio"),
    {
        "create": create,
        "list": names,
        "watch": follow,
        "merge": lambda: _patch(MERGE, "merge-patch+json"),
        "strategic": lambda: _patch(STRATEGIC, "strategic-merge-patch+json"),
        "json": lambda: _patch(JSON, "json-patch+json"),
        "apply": apply,
        "election": elect,
        "devices": devices,
        "tls": secure,
        "delete": delete,
    },
)
