"""kopf: an operator of ConfigMaps. Its handlers see what others do, its patches and finalizers reach the objects; it makes
and deletes none itself, so the standard library does.
"""

import importlib.metadata
import json
import logging
import os
import queue
import re
import threading
import urllib.request
from pathlib import Path

import kopf
from steps import FOLLOWED, NAMESPACE, SECURE, config_map, play

logging.getLogger("kopf").setLevel(logging.WARNING)
address = re.search(r"server: (\S+)", Path(os.environ["KUBECONFIG"]).read_text())[1]
seen = queue.Queue()


def _request(method, path="", body=None, form="application/json"):
    url = f"{address}/api/v1/namespaces/{NAMESPACE}/configmaps{path}"
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url, data, {"Content-Type": form}, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(asked) as answer:
        return json.load(answer)


@kopf.on.create("v1", "configmaps", field="metadata.name", value=FOLLOWED)
def created(patch, **_):
    patch.setdefault("data", {})["b"] = "2"
    seen.put("ADDED")


@kopf.on.update("v1", "configmaps", field="data.c")
def updated(**_):
    seen.put("MODIFIED")


@kopf.on.delete("v1", "configmaps", field="metadata.name", value=FOLLOWED)
def deleted(**_):
    seen.put("DELETED")


@kopf.on.event("v1", "configmaps", field="metadata.name", value=FOLLOWED)
def changed(body, type, **_):
    if body["data"].get("b"):
        merged.put(dict(body["data"]))
    if type == "DELETED":
        gone.set()


merged, gone = queue.Queue(), threading.Event()


def _operate(kubeconfig, namespace, **handlers):
    """An operator in a thread of its own, until this process ends."""
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


def secure():
    here, found = kopf.OperatorRegistry(), queue.Queue()

    kopf.on.login(registry=here)(kopf.login_with_kubeconfig)

    @kopf.on.event("v1", "configmaps", registry=here)
    def seen_there(namespace, **_):
        found.put(namespace)

    _operate(SECURE, "default", registry=here)
    return found.get()


play(importlib.metadata.version("kopf"), {"informer": inform, "tls": secure})
