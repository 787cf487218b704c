"""Environment variables of containers, and their expansion in commands. Error texts are those of a kubelet."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping

from apiserver.api.objects import Json
from apiserver.api.values.quantity import Quantity
from controllers.kubelet.pods.containers import ContainerError

#: Returns a ConfigMap or Secret by kind and name; None if missing.
Lookup = Callable[[str, str], Json | None]
_REFERENCE = re.compile(r"\$(\$|\(([^()\s]+)\))")
_ENTRY = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
_FORMAT = {"configmap": "configMapKeyRef", "secret": "secretKeyRef"}


def references(pod: Json) -> set[tuple[str, str]]:
    """Return the ConfigMaps and Secrets, as (kind, name), read by a pod's containers and volumes."""
    found: set[tuple[str, str]] = set()
    for container in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]):
        for entry in container.get("env") or ():
            for kind, field in _FORMAT.items():
                if reference := (entry.get("valueFrom") or {}).get(field):
                    found.add((kind, reference.get("name", "")))
        for entry in container.get("envFrom") or ():
            for kind, field in (("configmap", "configMapRef"), ("secret", "secretRef")):
                if reference := entry.get(field):
                    found.add((kind, reference.get("name", "")))
    for volume in pod["spec"].get("volumes") or ():
        for source in (volume, *((volume.get("projected") or {}).get("sources") or ())):
            if reference := source.get("configMap"):
                found.add(("configmap", reference.get("name", "")))
            if reference := source.get("secret"):
                found.add(("secret", reference.get("secretName") or reference.get("name", "")))
    return found


def data_of(kind: str, obj: Json) -> dict[str, bytes]:
    """Return the content of a ConfigMap or Secret."""
    if kind == "secret":
        return {key: b64decode(value) for key, value in (obj.get("data") or {}).items()}
    plain = {key: str(value).encode() for key, value in (obj.get("data") or {}).items()}
    return plain | {key: b64decode(value) for key, value in (obj.get("binaryData") or {}).items()}


def environment(pod: Json, container: Json, lookup: Lookup) -> dict[str, str]:
    """Build the variables of a container's spec. Raise ContainerError."""
    found: dict[str, str] = {}
    for entry in container.get("envFrom") or ():
        found |= _from_all(pod, entry, lookup)
    for entry in container.get("env") or ():
        if "valueFrom" in entry:
            value = _from_one(pod, container, entry["valueFrom"], lookup)
        else:
            value = expand(entry.get("value", ""), found)
        if value is not None:
            found[entry["name"]] = value
    return found


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by known variables, and `$$` by a dollar sign."""

    def replaced(match: re.Match[str]) -> str:
        return "$" if match[1] == "$" else variables.get(match[2], match[0])

    return _REFERENCE.sub(replaced, text)


def _config_error(text: str) -> ContainerError:
    return ContainerError("CreateContainerConfigError", text)


def _from_all(pod: Json, entry: Json, lookup: Lookup) -> Iterator[tuple[str, str]] | dict[str, str]:
    for kind, field in (("configmap", "configMapRef"), ("secret", "secretRef")):
        reference = entry.get(field)
        if reference is None:
            continue
        obj = lookup(kind, reference["name"])
        if obj is None:
            if reference.get("optional"):
                continue
            raise _config_error(f'{kind} "{reference["name"]}" not found')
        prefix = entry.get("prefix", "")
        return {f"{prefix}{key}": value.decode(errors="replace") for key, value in data_of(kind, obj).items()}
    return {}


def _from_one(pod: Json, container: Json, source: Json, lookup: Lookup) -> str | None:
    if reference := source.get("fieldRef"):
        return field_of(pod, reference["fieldPath"])
    if reference := source.get("resourceFieldRef"):
        return resource_of(pod, reference, container)
    for kind, field in _FORMAT.items():
        reference = source.get(field)
        if reference is None:
            continue
        obj = lookup(kind, reference["name"])
        value = None if obj is None else data_of(kind, obj).get(reference["key"])
        if value is not None:
            return value.decode(errors="replace")
        if reference.get("optional"):
            return None
        if obj is None:
            raise _config_error(f'{kind} "{reference["name"]}" not found')
        what, namespace = {"configmap": "ConfigMap", "secret": "Secret"}[kind], pod["metadata"]["namespace"]
        raise _config_error(f"couldn't find key {reference['key']} in {what} {namespace}/{reference['name']}")
    raise _config_error("unsupported valueFrom: " + ", ".join(source))


def field_of(pod: Json, path: str) -> str:
    """Return a field of the pod as in the downward API. Raise ContainerError."""
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
    if entry := _ENTRY.fullmatch(path):
        return str((meta.get(entry[1]) or {}).get(entry[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = sorted((meta.get(path.partition(".")[2]) or {}).items())
        return "".join(f'{key}="{value}"\n' for key, value in pairs)
    simple = {
        "metadata.name": meta["name"],
        "metadata.namespace": meta["namespace"],
        "metadata.uid": meta["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "status.hostIP": status.get("hostIP", ""),
        "status.hostIPs": ",".join(item["ip"] for item in status.get("hostIPs") or ()),
        "status.podIP": status.get("podIP", ""),
        "status.podIPs": ",".join(item["ip"] for item in status.get("podIPs") or ()),
    }
    if path not in simple:
        raise _config_error(f"unsupported fieldPath: {path}")
    return str(simple[path])


def resource_of(pod: Json, reference: Json, container: Json | None = None) -> str:
    """Return a container's limit or request in units of the divisor, rounded up."""
    if name := reference.get("containerName"):
        every = (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])
        container = next((c for c in every if c["name"] == name), container)
    kind, _, resource = reference["resource"].partition(".")
    resources = (container or {}).get("resources") or {}
    amount = (resources.get(kind) or {}).get(resource) or (resources.get("requests") or {}).get(resource) or "0"
    divisor = Quantity.parse(str(reference.get("divisor") or "1"))
    if divisor.is_zero:
        divisor = Quantity.of(1)
    # In thousandths, the finest unit of cpu and memory.
    parts, unit = Quantity.parse(str(amount)).value(-3), divisor.value(-3)
    return str(-(-parts // unit))
