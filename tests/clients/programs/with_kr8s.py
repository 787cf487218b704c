"""kr8s: objects that know what can be done with them. It has no strategic merge patch and no server-side apply."""

import importlib.metadata

import kr8s
from kr8s.objects import ConfigMap, Namespace, new_class
from steps import JSON, MERGE, NAME, NAMESPACE, SECURE, WATCHED, claim, config_map, live, play

api = kr8s.api(namespace=NAMESPACE)


def _map(name=NAME, **data):
    return ConfigMap(config_map(name, **data), namespace=NAMESPACE, api=api)


def create():
    made = _map(a="1")
    made.create()
    return dict(made.data)


def follow():
    watched = _map(WATCHED)
    stream = kr8s.watch("configmaps", namespace=NAMESPACE, api=api)
    return live(
        (event for event, found in stream if found.name == WATCHED),
        (watched.create, lambda: watched.patch(MERGE), watched.delete),
    )


def _patch(body, form=None):
    found = ConfigMap.get(NAME, namespace=NAMESPACE, api=api)
    found.patch(body, type=form)
    return dict(found.data)


def devices():
    kind = new_class("ResourceClaim", version="resource.k8s.io/v1", namespaced=True, plural="resourceclaims")
    made = kind(claim(), namespace=NAMESPACE, api=api)
    made.create()
    (published,) = kr8s.get("resourceslices", api=api)
    return {
        "class": made.spec.devices.requests[0].exactly.deviceClassName,
        "devices": [device["name"] for device in published.spec.devices],
    }


def delete():
    ConfigMap.get(NAME, namespace=NAMESPACE, api=api).delete()
    try:
        ConfigMap.get(NAME, namespace=NAMESPACE, api=api)
    except kr8s.NotFoundError:
        return 404


play(
    importlib.metadata.version("kr8s"),
    {
        "create": create,
        "list": lambda: [found.name for found in kr8s.get("configmaps", namespace=NAMESPACE, api=api)],
        "watch": follow,
        "merge": lambda: _patch(MERGE),
        "json": lambda: _patch(JSON, "json"),
        "devices": devices,
        "tls": lambda: Namespace.get("default", api=kr8s.api(kubeconfig=SECURE)).name,
        "delete": delete,
    },
)
