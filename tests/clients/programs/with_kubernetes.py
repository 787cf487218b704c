"""The official Python client."""

import importlib.metadata
import importlib.util
import queue
import threading
from functools import cache

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException
from steps import (
    APPLIED,
    FOLLOWED,
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

config.load_kube_config()
core = client.CoreV1Api()


def create():
    return core.create_namespaced_config_map(NAMESPACE, config_map(a="1")).data


def names():
    return [found.metadata.name for found in core.list_namespaced_config_map(NAMESPACE).items]


def _changes(name):
    return (
        lambda: core.create_namespaced_config_map(NAMESPACE, config_map(name)),
        lambda: core.patch_namespaced_config_map(name, NAMESPACE, MERGE),
        lambda: core.delete_namespaced_config_map(name, NAMESPACE),
    )


def follow():
    version = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    stream = watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, resource_version=version)
    return live((event["type"] for event in stream if event["object"].metadata.name == WATCHED), _changes(WATCHED))


@cache
def _dynamic():
    """Make a client that learns its kinds from discovery; older typed clients cannot choose the patch format."""
    return dynamic.DynamicClient(client.ApiClient()).resources.get(api_version="v1", kind="ConfigMap")


def _patch(body, form):
    done = _dynamic().patch(body=body, name=NAME, namespace=NAMESPACE, content_type=f"application/{form}-patch+json")
    return done.data.to_dict()


def _apply(**more):
    return _dynamic().server_side_apply(APPLIED, NAME, NAMESPACE, field_manager=MANAGER, **more).data.to_dict()


def apply():
    try:
        _apply()
    except ApiException as refused:
        return {"refused": refused.status, "forced": _apply(force_conflicts=True)}


def inform():
    from kubernetes import informer

    seen = queue.Queue()
    running = informer.SharedInformer(core.list_namespaced_config_map, namespace=NAMESPACE)
    for kind in (informer.ADDED, informer.MODIFIED, informer.DELETED):
        running.add_event_handler(kind, lambda found, kind=kind: found.metadata.name == FOLLOWED and seen.put(kind))
    running.start()
    return [seen.get() for change in _changes(FOLLOWED) if change()]


def elect():
    from kubernetes.leaderelection import electionconfig
    from kubernetes.leaderelection.leaderelection import LeaderElection

    try:
        from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock as Lock
    except ImportError:
        from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock as Lock

    leads = threading.Event()
    lock = Lock("leader", NAMESPACE, "me")
    chosen = electionconfig.Config(lock, 15, 10, 5, leads.set, None)
    threading.Thread(target=LeaderElection(chosen).run, daemon=True).start()
    leads.wait()
    found, record = lock.get("leader", NAMESPACE)
    return found and record.holder_identity


def devices():
    api, version = (
        (client.ResourceV1Api(), "v1") if hasattr(client, "ResourceV1Api") else (client.ResourceV1beta1Api(), "v1beta1")
    )
    made = api.create_namespaced_resource_claim(NAMESPACE, claim(version)).spec.devices.requests[0]
    (published,) = api.list_resource_slice().items
    return {
        "class": (made.exactly if version == "v1" else made).device_class_name,
        "devices": [device.name for device in published.spec.devices],
    }


def secure():
    with config.new_client_from_config(SECURE) as other:
        return client.CoreV1Api(other).read_namespace("default").metadata.name


def delete():
    core.delete_namespaced_config_map(NAME, NAMESPACE)
    try:
        core.read_namespaced_config_map(NAME, NAMESPACE)
    except ApiException as gone:
        return gone.status


steps = {
    "create": create,
    "list": names,
    "watch": follow,
    "merge": lambda: _patch(MERGE, "merge"),
    "strategic": lambda: _patch(STRATEGIC, "strategic-merge"),
    "json": lambda: _patch(JSON, "json"),
    "apply": apply,
    "informer": inform,
    "election": elect,
    "devices": devices,
    "tls": secure,
    "delete": delete,
}
if importlib.util.find_spec("kubernetes.informer") is None:
    del steps["informer"]
play(importlib.metadata.version("kubernetes"), steps)
