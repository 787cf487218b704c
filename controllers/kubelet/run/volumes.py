"""The files of a container: a directory with one link per mount.

The process starts in that directory: a mount at `/data` is `data` for it, and `$KUBEDRA_ROOT/data`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from apiserver.api.objects import Json
from controllers.kubelet.pods.containers import ContainerError
from controllers.kubelet.pods.environment import Lookup, data_of, field_of, resource_of
from controllers.kubelet.pods.subpaths import sub_path


def build_directory(
    pod: Json,
    container: Json,
    root: Path,
    volumes: Path,
    lookup: Lookup,
    links: Mapping[str, str],
    variables: Mapping[str, str],
) -> None:
    """Recreate the container's directory. Raise ContainerError or OSError.

    `volumes` has the pod's volumes; `variables` is the container's environment.
    """
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    sources = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    for mount in container.get("volumeMounts") or ():
        volume = sources[mount["name"]]
        target = _provide(pod, volume, volumes / volume["name"], lookup)
        if target is None:
            continue
        if sub := sub_path(mount, variables):
            target = target / sub
            if not target.exists():
                target.mkdir(parents=True)
        _link(root, mount["mountPath"], target)
    for path, source in links.items():
        _link(root, path, Path(source))


def _link(root: Path, path: str, target: Path) -> None:
    place = root / path.lstrip("/")
    if ".." in place.parts:
        raise ContainerError("CreateContainerError", f"mount path {path}: must not contain '..'")
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.is_symlink() and not place.exists():
        place.symlink_to(target)


def _provide(pod: Json, volume: Json, place: Path, lookup: Lookup) -> Path | None:
    """Return the directory with a volume's content, or None if nothing is mounted."""
    if "hostPath" in volume:
        path = Path(volume["hostPath"]["path"])
        if volume["hostPath"].get("type") == "DirectoryOrCreate":
            path.mkdir(parents=True, exist_ok=True)
        return path
    place.mkdir(parents=True, exist_ok=True)
    if "emptyDir" in volume or "ephemeral" in volume:
        return place
    if projected := volume.get("projected"):
        for source in projected.get("sources") or ():
            # No service account tokens are issued: processes run with the credentials of the local user.
            if "serviceAccountToken" not in source and "clusterTrustBundle" not in source:
                _fill(place, _files(pod, source, lookup))
        return place
    if any(kind in volume for kind in ("configMap", "secret", "downwardAPI")):
        _fill(place, _files(pod, volume, lookup))
        return place
    kinds = ", ".join(key for key in volume if key != "name")
    raise ContainerError("CreateContainerError", f'volume "{volume["name"]}": {kinds} is not supported with --run')


def _files(pod: Json, source: Json, lookup: Lookup) -> Iterator[tuple[str, bytes]]:
    for kind, field in (("configmap", "configMap"), ("secret", "secret")):
        reference = source.get(field)
        if reference is None:
            continue
        name = reference.get("secretName") or reference.get("name", "")
        obj = lookup(kind, name)
        if obj is None:
            # Every pod mounts the service accounts' CA bundle, which may not exist.
            if reference.get("optional") or name == "kube-root-ca.crt":
                return
            raise ContainerError("CreateContainerConfigError", f'{kind} "{name}" not found')
        data = data_of(kind, obj)
        items = reference.get("items")
        for key, path in [(item["key"], item["path"]) for item in items] if items else [(key, key) for key in data]:
            if key not in data:
                text = f"references non-existent {kind} key: {key}"
                raise ContainerError("CreateContainerConfigError", text)
            yield path, data[key]
    for item in (source.get("downwardAPI") or {}).get("items") or ():
        field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
        yield item["path"], (field_of(pod, field["fieldPath"]) if field else resource_of(pod, resource)).encode()


def _fill(place: Path, files: Iterator[tuple[str, bytes]]) -> None:
    for path, content in files:
        target = place / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
