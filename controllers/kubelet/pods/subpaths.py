"""The part of a volume mounted by a container (`subPath`, `subPathExpr`). Facts: upstream's kubelet_pods.go."""

from __future__ import annotations

from collections.abc import Mapping

from apiserver.api.objects import Json
from controllers.kubelet.pods.containers import ContainerError
from controllers.kubelet.pods.environment import environment, expand


def sub_path(mount: Json, variables: Mapping[str, str]) -> str:
    """Return the path within the volume; "" is the whole volume. Raise ContainerError.

    `variables` is the container's environment.
    """
    path = expand(mount["subPathExpr"], variables) if mount.get("subPathExpr") else mount.get("subPath") or ""
    if path.startswith("/"):
        raise _config_error(f"error SubPath `{path}` must not be an absolute path")
    if ".." in path.split("/"):
        raise _config_error(f"unable to provision SubPath `{path}`: must not contain '..'")
    return path


def check(pod: Json, container: Json) -> None:
    """Check the mounts of an emulated container. Raise ContainerError.

    Variables from ConfigMaps and Secrets are unknown here.
    """
    mounts = [mount for mount in container.get("volumeMounts") or () if mount.get("subPathExpr")]
    if not mounts:
        return
    known = [entry for entry in container.get("env") or () if _is_known(entry)]
    variables = environment(pod, {**container, "envFrom": [], "env": known}, lambda kind, name: None)
    for mount in mounts:
        sub_path(mount, variables)


def _is_known(entry: Json) -> bool:
    source = entry.get("valueFrom")
    return source is None or "fieldRef" in source or "resourceFieldRef" in source


def _config_error(text: str) -> ContainerError:
    return ContainerError("CreateContainerConfigError", text)
