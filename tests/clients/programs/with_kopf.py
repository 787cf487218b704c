"""kopf: an operator of ConfigMaps.

Its handlers see the changes of others, its patches and finalizers reach the objects. It creates and deletes none
itself, so the standard library does.
"""

import importlib.metadata
import json
import logging
import os
import queue
import re
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import kopf
from steps import FOLLOWED, NAMESPACE, SECURE, config_map, play

logging.getLogger("kopf").setLevel(logging.WARNING)
address = re.search(r"server: (\S+)", Path(os.environ["KUBECONFIG"]).read_text())[1]
seen = queue.Queue()


def _request(method, path="", body=None, form="application/json"):
    return _ask(method, f"/api/v1/namespaces/{NAMESPACE}/configmaps{path}", body, form)


def _ask(method, path, body=None, form="application/json"):
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(address + path, data, {"Content-Type": form}, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(asked) as answer:
        return json.load(answer)


@kopf.on.create("v1", "configmaps", field="metadata.name", value=FOLLOWED)
def created(patch, **_) -> None:
    patch.setdefault("data", {})["b"] = "2"
    seen.put("ADDED")


@kopf.on.update("v1", "configmaps", field="data.c")
def updated(**_) -> None:
    seen.put("MODIFIED")


@kopf.on.delete("v1", "configmaps", field="metadata.name", value=FOLLOWED)
def deleted(**_) -> None:
    seen.put("DELETED")


@kopf.on.event("v1", "configmaps", field="metadata.name", value=FOLLOWED)
def changed(body, type, **_) -> None:
    if body["data"].get("b"):
        merged.put(dict(body["data"]))
    if type == "DELETED":
        gone.set()


merged, gone = queue.Queue(), threading.Event()


def _operate(kubeconfig, namespace, **handlers) -> None:
    """Run an operator in a thread of its own, until this process ends."""
    os.environ["KUBECONFIG"] = kubeconfig
    ready = threading.Event()
    run = {"standalone": True, "namespaces": [namespace], "ready_flag": ready, **handlers}
    threading.Thread(target=lambda: kopf.run(**run), daemon=True).start()
    ready.wait()


def inform():
    _operate(os.environ["KUBECONFIG"], NAMESPACE)
    _request("POST", body=config_map(FOLLOWED, a="1"))
    came = [seen.get()]
    merged.get()
    _request("PATCH", f"/{FOLLOWED}", {"data": {"c": "3"}}, "application/merge-patch+json")
    came.append(seen.get())
    _request("DELETE", f"/{FOLLOWED}")
    came.append(seen.get())
    # Its finalizer is off.
    gone.wait()
    return came


#: What kopf's operators write into to find each other.
PEERINGS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "kopfpeerings.kopf.dev"},
    "spec": {
        "group": "kopf.dev",
        "scope": "Namespaced",
        "names": {"kind": "KopfPeering", "plural": "kopfpeerings"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                    }
                },
            }
        ],
    },
}


def elect():
    """Of two operators the one with the higher priority handles what comes, and the other pauses."""
    path, led = f"/apis/kopf.dev/v1/namespaces/{NAMESPACE}/kopfpeerings", queue.Queue()
    _ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", PEERINGS)
    _until(lambda: _served(path))
    _ask("POST", path, {"apiVersion": "kopf.dev/v1", "kind": "KopfPeering", "metadata": {"name": "default"}})

    def join(identity, priority) -> None:
        here = kopf.OperatorRegistry()
        kopf.on.login(registry=here)(kopf.login_with_kubeconfig)

        @kopf.on.event("v1", "configmaps", field="metadata.name", value="led", registry=here)
        def seen_by(**_) -> None:
            led.put(identity)

        peered = {"standalone": False, "peering_name": "default", "priority": priority, "identity": identity}
        _operate(os.environ["KUBECONFIG"], NAMESPACE, registry=here, **peered)
        _until(lambda: identity in _ask("GET", f"{path}/default").get("status", {}))

    join("me", 10)
    join("other", 1)
    _request("POST", body=config_map("led"))
    first = led.get()
    _request("DELETE", "/led")
    return first


def _served(path):
    try:
        return _ask("GET", path)
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise


def _until(reached) -> None:
    while not reached():
        time.sleep(0.05)


def secure():
    here, found = kopf.OperatorRegistry(), queue.Queue()

    kopf.on.login(registry=here)(kopf.login_with_kubeconfig)

    @kopf.on.event("v1", "configmaps", registry=here)
    def seen_there(namespace, **_) -> None:
        found.put(namespace)

    _operate(SECURE, "default", registry=here)
    return found.get()


play(importlib.metadata.version("kopf"), {"informer": inform, "election": elect, "tls": secure})
