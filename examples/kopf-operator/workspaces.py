"""An operator for Workspaces: a pod with GPUs of its own, replaced when the spec changes.

Run it with `kopf run workspaces.py --all-namespaces`.
"""

import kopf
import pykube

LABEL = "example.com/workspace"


@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.finalizer = "example.com/workspace-operator"
    settings.posting.level = 30  # events only for warnings and errors


@kopf.on.create("example.com", "v1", "workspaces", backoff=1)
@kopf.on.update("example.com", "v1", "workspaces", field="spec", backoff=1)
def run(spec, meta, name, namespace, **_):
    """Create the claim and the pod of this generation, and delete those of earlier ones."""
    api = pykube.HTTPClient(pykube.KubeConfig.from_env())
    current = f"{name}-{meta['generation']}"
    for pod in pykube.Pod.objects(api, namespace=namespace).filter(selector={LABEL: name}):
        if pod.name != current:
            pod.delete()
    for kind, obj in ((Claim, claim(current, spec)), (pykube.Pod, pod_of(current, spec))):
        kopf.adopt(obj)  # deleted with the workspace
        kopf.label(obj, {LABEL: name})
        wanted = kind(api, obj)
        if not wanted.exists():  # the handler is called again after an error
            wanted.create()
    for old in Claim.objects(api, namespace=namespace).filter(selector={LABEL: name}):
        if old.name != current:
            old.delete()


@kopf.on.event("v1", "pods", labels={LABEL: kopf.PRESENT})
def report(type, body, meta, namespace, **_):
    """Copy the phase of a pod to the status of its workspace."""
    if type == "DELETED" or "deletionTimestamp" in meta:
        return
    api = pykube.HTTPClient(pykube.KubeConfig.from_env())
    workspace = Workspace.objects(api, namespace=namespace).get_or_none(name=meta["labels"][LABEL])
    if workspace is not None:
        phase = {"phase": body["status"].get("phase"), "pod": meta["name"], "node": body["spec"].get("nodeName")}
        workspace.patch({"status": phase}, subresource="status")


class Claim(pykube.objects.NamespacedAPIObject):
    version, kind, endpoint = "resource.k8s.io/v1", "ResourceClaim", "resourceclaims"


class Workspace(pykube.objects.NamespacedAPIObject):
    version, kind, endpoint = "example.com/v1", "Workspace", "workspaces"


def claim(name, spec):
    """Return a claim for the GPUs of a workspace."""
    gpus = {"deviceClassName": "gpu.example.com", "count": spec["gpus"]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "gpus", "exactly": gpus}]}},
    }


def pod_of(name, spec):
    """Return the pod that uses the claim of the same name."""
    container = {"name": "main", "image": spec["image"], "resources": {"claims": [{"name": "gpus"}]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "containers": [container],
            "resourceClaims": [{"name": "gpus", "resourceClaimName": name}],
            "terminationGracePeriodSeconds": 1,
        },
    }
