"""A scheduler for pods with `schedulerName: cheapest`: each goes to the cheapest node with room for its CPU request.

Run it with `python cheapest.py KUBECONFIG`.
"""

import sys
import threading

from kubedra import ApiError, Client

NAME = "cheapest"
PRICE = "example.com/price"


def run(client, stopping, period=1.0):
    """Schedule until `stopping` is set: after each change of a pod, and every `period` seconds for changed nodes."""
    while not stopping.is_set():
        before = client.request("GET", "/api/v1/pods", params={"limit": "1"})["metadata"]["resourceVersion"]
        schedule(client)
        for event in client.watch("/api/v1/pods", timeout=period, resourceVersion=before):
            if stopping.is_set():
                break
            if event["type"] != "BOOKMARK":
                schedule(client)


def schedule(client):
    """Bind every pod that waits and fits."""
    pods = client.list("pods", namespace="")
    for pod in sorted(filter(waits, pods), key=lambda pod: pod["metadata"]["creationTimestamp"]):
        node = choose(pod, client.list("nodes"), pods)
        if node is None:
            report(client, pod)
        elif bind(client, pod, node):
            pod["spec"]["nodeName"] = node  # counts for the next pod


def waits(pod):
    spec = pod["spec"]
    mine = spec.get("schedulerName") == NAME and not spec.get("nodeName") and not spec.get("schedulingGates")
    return mine and "deletionTimestamp" not in pod["metadata"]


def choose(pod, nodes, pods):
    """Return the name of the cheapest node with room, or None."""
    fitting = [node for node in nodes if is_open(node) and free_cpu(node, pods) >= cpu_of(pod)]
    cheapest = min(fitting, key=lambda node: float(node["metadata"]["labels"].get(PRICE, "inf")), default=None)
    return cheapest and cheapest["metadata"]["name"]


def is_open(node):
    taints = {taint["effect"] for taint in node["spec"].get("taints", ())}
    return not node["spec"].get("unschedulable") and not taints & {"NoSchedule", "NoExecute"}


def free_cpu(node, pods):
    """Return the free CPU of a node in thousandths."""
    here = [pod for pod in pods if pod["spec"].get("nodeName") == node["metadata"]["name"]]
    used = sum(cpu_of(pod) for pod in here if pod["status"].get("phase") not in ("Succeeded", "Failed"))
    return milli(node["status"]["allocatable"]["cpu"]) - used


def cpu_of(pod):
    requests = [container.get("resources", {}).get("requests", {}) for container in pod["spec"]["containers"]]
    return sum(milli(request.get("cpu", "0")) for request in requests)


def milli(quantity):
    return int(quantity[:-1]) if quantity.endswith("m") else int(float(quantity) * 1000)


def bind(client, pod, node):
    """Bind a pod; return False if it was bound or deleted meanwhile, or is to be tried again."""
    meta = pod["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding"
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    identity = {"name": meta["name"], "uid": meta["uid"]}
    try:
        client.request("POST", path, {"apiVersion": "v1", "kind": "Binding", "metadata": identity, "target": target})
    except ApiError as error:
        print(f"{meta['namespace']}/{meta['name']}: {error.message}", file=sys.stderr)
        return False
    return True


def report(client, pod):
    """Write the reason why a pod waits, once."""
    if any(condition["type"] == "PodScheduled" for condition in pod["status"].get("conditions", ())):
        return
    meta = pod["metadata"]
    reason = {"reason": "Unschedulable", "message": "no node has enough free CPU"}
    status = {"conditions": [{"type": "PodScheduled", "status": "False", **reason}]}
    client.patch_status(f"pod/{meta['name']}", status, namespace=meta["namespace"])


if __name__ == "__main__":
    with Client.from_kubeconfig(*sys.argv[1:]) as connected:
        run(connected, threading.Event())
