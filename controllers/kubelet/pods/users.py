"""The users that may run a container. Facts: upstream's pkg/kubelet/kuberuntime/security_context_others.go."""

from __future__ import annotations

from apiserver.api.objects import Json
from controllers.kubelet.pods.containers import ContainerError


def check(pod: Json, container: Json) -> None:
    """Raise ContainerError if a container with runAsNonRoot sets the root user.

    The user of the image is unknown.
    """
    said = {**(pod["spec"].get("securityContext") or {}), **(container.get("securityContext") or {})}
    if said.get("runAsNonRoot") and said.get("runAsUser") == 0:
        meta = pod["metadata"]
        whose = f'pod: "{meta["name"]}_{meta["namespace"]}({meta["uid"]})", container: {container["name"]}'
        text = f"container's runAsUser breaks non-root policy ({whose})"
        raise ContainerError("CreateContainerConfigError", text)
