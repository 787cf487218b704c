"""pykube-ng: objects over requests. Its one patch is a merge patch, whatever its argument is called."""

import importlib.metadata
import os

import pykube
from steps import MERGE, NAME, NAMESPACE, SECURE, WATCHED, claim, config_map, live, play

api = pykube.HTTPClient(pykube.KubeConfig.from_file(os.environ["KUBECONFIG"]))
maps = pykube.ConfigMap.objects(api, namespace=NAMESPACE)


def _map(name=NAME, **data):
    made = config_map(name, **data)
    made["metadata"]["namespace"] = NAMESPACE
    return pykube.ConfigMap(api, made)


def create():
    made = _map(a="1")
    made.create()
    return made.obj["data"]


def follow():
    watched = _map(WATCHED)
    stream = maps.watch(since=maps.response["metadata"]["resourceVersion"])
    return live(
        (event.type for event in stream if event.object.name == WATCHED),
        (watched.create, lambda: watched.patch(MERGE), watched.delete),
    )


def merge():
    found = maps.get_by_name(NAME)
    found.patch(MERGE)
    return found.obj["data"]


def devices():
    made = claim()
    made["metadata"]["namespace"] = NAMESPACE
    asked = pykube.object_factory(api, "resource.k8s.io/v1", "ResourceClaim")(api, made)
    asked.create()
    (published,) = pykube.object_factory(api, "resource.k8s.io/v1", "ResourceSlice").objects(api)
    return {
        "class": asked.obj["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"],
        "devices": [device["name"] for device in published.obj["spec"]["devices"]],
    }


def secure():
    other = pykube.HTTPClient(pykube.KubeConfig.from_file(SECURE))
    return pykube.Namespace.objects(other).get_by_name("default").name


def delete():
    maps.get_by_name(NAME).delete()
    try:
        maps.get_by_name(NAME)
    except pykube.exceptions.ObjectDoesNotExist:
        return 404


play(
    importlib.metadata.version("pykube-ng"),
    {
        "create": create,
        "list": lambda: [found.name for found in maps],
        "watch": follow,
        "merge": merge,
        "devices": devices,
        "tls": secure,
        "delete": delete,
    },
)
