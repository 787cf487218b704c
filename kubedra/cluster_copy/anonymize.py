"""Replace the names in a copy consistently, so that a file can be shared. See docs/howto/copy-a-live-cluster.md.

Equal strings get equal replacements, wherever they occur, so references, selectors and affinities keep their meaning.
Hardware stays: drivers, devices with all attributes, resource names, quantities, and CEL expressions about them.
Free text, environments, commands and the contents of ConfigMaps and Secrets are removed.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kubedra.runtime.objects import Json

__all__ = ["Anonymizer", "anonymize"]

#: Names that every cluster has.
_COMMON: Final = frozenset(
    {"", "default", "kube-system", "kube-public", "kube-node-lease", "kubernetes", "kube-root-ca.crt",
     "default-scheduler", "system-cluster-critical", "system-node-critical", "cluster.local", "linux", "windows",
     "amd64", "arm64", "cpu", "memory", "storage", "ephemeral-storage", "pods", "foregroundDeletion", "orphan",
     "true", "false", "localhost"}
)  # fmt: skip
#: Domains of Kubernetes' own labels, annotations and finalizers, with their subdomains.
_OWN_DOMAINS: Final = ("kubernetes.io", "k8s.io", "kubedra.dev")
#: Labels whose values describe hardware.
_HARDWARE_LABELS: Final = frozenset(
    {"kubernetes.io/os", "kubernetes.io/arch", "node.kubernetes.io/instance-type", "pod-template-hash",
     "controller-revision-hash", "pod-template-generation"}
)  # fmt: skip
#: Fields that are removed wherever they occur: free text, and what containers run.
_REMOVED: Final = frozenset(
    {"env", "envFrom", "command", "args", "workingDir", "message", "note", "description", "managedFields", "stdin",
     "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "securityContext", "imagePullSecrets",
     "hostAliases", "caBundle", "stringData", "binaryData", "terminationMessagePath", "networkData"}
)  # fmt: skip
#: Fields whose values are kept as they are, with everything below: API constants and hardware.
_KEPT: Final = frozenset(
    {"apiVersion", "kind", "apiGroup", "fieldPath", "resource", "expression", "matchAttribute", "distinctAttribute",
     "attribute", "attributes", "basicAttributes", "sharedCounters", "consumesCounters", "driver", "device", "uid",
     "provisioner", "schedule", "timeZone", "phase", "type", "status", "reason", "operator", "effect", "fsType",
     "protocol", "extendedResourceName",
     "resourceName", "resourceVersion", "shareID", "containerID", "requestPolicy", "consumedCapacity",
     "allocatedResources", "unit"}
)  # fmt: skip
#: Fields with quantities by resource name.
_QUANTITIES: Final = frozenset({"capacity", "allocatable", "requests", "limits", "hard", "used"})
#: The parts of a node's description that do not identify it.
_NODE_INFO: Final = ("architecture", "operatingSystem", "kubeletVersion", "osImage", "kernelVersion")
_QUANTITY: Final = re.compile(r"^[+-]?\d+(\.\d+)?([eE][+-]?\d+|[numkMGTPE]i?|%|h|m|s|ms)?$")
_TIME: Final = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z$")
_CONSTANT: Final = re.compile(r"^[A-Z][A-Za-z0-9]*$")
_UID: Final = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
#: Endings of generated names: ordinals, and letters that Kubernetes generates, which have no vowels.
_ENDING: Final = re.compile(r"^(-(\d+|[bcdfghjklmnpqrstvwxz2456789]{5,10}))+$")
#: Documentation addresses (RFC 5737, RFC 3849) replace public ones.
_PUBLIC: Final = {4: ipaddress.ip_address("203.0.113.0"), 6: ipaddress.ip_address("2001:db8::")}


class Anonymizer:
    """Replaces the strings of one copy. `hardware` are domains that stay, because drivers have them."""

    def __init__(self, hardware: Iterable[str] = ()) -> None:
        self._hardware = frozenset(hardware)
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._values: set[str] = set()

    def register(self, objects: Iterable[Json]) -> None:
        """Choose the replacements of all names, owners first, so that generated names keep their endings."""
        objects = sorted(objects, key=lambda each: (each["kind"] != "Namespace", each["kind"] != "Node"))
        by_uid = {each["metadata"].get("uid"): each for each in objects}
        for each in objects:
            metadata = each["metadata"]
            self._name(metadata["name"], each["kind"].lower(), self._owner(each, by_uid))
            for key, value in (metadata.get("labels") or {}).items():
                self._label_value(key, value)
            for claim in (each.get("spec") or {}).get("volumeClaimTemplates") or ():
                self._claims_of(metadata["name"], claim["metadata"]["name"], each["spec"].get("replicas", 1))

    def _owner(self, obj: Json, by_uid: dict[Any, Json]) -> str:
        """Return the name of an object's controller after registering it."""
        for owner in obj["metadata"].get("ownerReferences") or ():
            found = by_uid.get(owner["uid"])
            if owner.get("controller") and found is not None and found is not obj:
                self._name(found["metadata"]["name"], found["kind"].lower(), self._owner(found, by_uid))
                return str(found["metadata"]["name"])
        return ""

    def _claims_of(self, workload: str, template: str, replicas: int) -> None:
        """Keep the form of the names of a StatefulSet's volume claims."""
        prefix = f"{self._name(template, 'volume')}-{self._name(workload, 'statefulset')}"
        for ordinal in range(max(replicas, 1) + 100):
            self._names.setdefault(f"{template}-{workload}-{ordinal}", f"{prefix}-{ordinal}")

    def _label_value(self, key: str, value: str) -> None:
        if key in _HARDWARE_LABELS:
            self._values.add(value)
        elif not self._is_plain(value):
            self._name(value, "value")

    def _name(self, name: str, word: str, owner: str = "") -> str:
        """Return the replacement of a name."""
        if name in _COMMON or name.startswith("system:") or name in self._values or self._is_hardware(name):
            return name
        known = self._names.get(name)
        if known is None:
            ending = name.removeprefix(owner) if owner and name.startswith(owner) else ""
            if _ENDING.match(ending):
                known = self._name(owner, word) + ending
            else:
                self._counts[word] = self._counts.get(word, 0) + 1
                known = f"{word}-{self._counts[word]}"
            self._names[name] = known
        return known

    def _is_hardware(self, text: str) -> bool:
        return any(text == domain or text.endswith(f".{domain}") for domain in self._hardware)

    @staticmethod
    def _is_plain(text: str) -> bool:
        """Return whether a string is a number, a quantity, a time, a boolean or a uid."""
        return bool(text in _COMMON or _QUANTITY.match(text) or _TIME.match(text) or _UID.match(text))

    def replace(self, obj: Json) -> Json:
        """Return an object with all its strings replaced."""
        kind = obj["kind"]
        if kind in {"ConfigMap", "Secret"}:
            obj = {name: value for name, value in obj.items() if name != "data"}
        done: Json = self._value(obj)
        generated = obj["metadata"].get("generateName")
        if generated:
            done["metadata"]["generateName"] = self._generate_name(generated)
        return done

    def _generate_name(self, text: str) -> str:
        return f"{self._name(text.rstrip('-'), 'name')}-"

    def _value(self, value: Any, field: str = "") -> Any:
        if isinstance(value, dict):
            return self._mapping(value, field)
        if isinstance(value, list):
            return [self._value(each, field) for each in value]
        return self._text(value, field) if isinstance(value, str) else value

    def _mapping(self, value: Json, field: str) -> Json:
        if field in {"labels", "matchLabels", "nodeSelector", "selector"} and _is_flat(value):
            return {self._key(key): self._label(key, each) for key, each in value.items()}
        if field == "annotations":
            return {
                self._key(key): self._text(each, "")
                for key, each in value.items()
                if self._is_own(key) and not key.startswith("kubectl.")
            }
        if field == "nodeInfo":
            return {key: value[key] for key in _NODE_INFO if key in value}
        return {key: self._member(key, each, field) for key, each in value.items() if not _is_removed(key, field)}

    def _member(self, key: str, value: Any, field: str) -> Any:
        """Replace the strings of one field; `field` is the name of the object around it."""
        if key in {"key", "topologyKey"} and isinstance(value, str):
            return self._key(value)
        if key == "parameters":
            return {}
        if key in _QUANTITIES and isinstance(value, list):  # The requests of a claim, the limits of a LimitRange.
            return self._value(value, f"{key} list")
        if key == "status" and isinstance(value, dict):
            return self._value(value, key)
        is_device = field == "devices" and key == "name"
        return value if is_device or key in _KEPT or key in _QUANTITIES else self._value(value, key)

    def _label(self, key: str, value: Any) -> Any:
        return value if key in _HARDWARE_LABELS else self._text(value, "")

    def _key(self, key: str) -> str:
        """Replace the domain of a label's key, unless it is Kubernetes' own or a driver's."""
        domain, slash, name = key.rpartition("/")
        if not slash or self._is_own(key) or self._is_hardware(domain):
            return key
        return f"{self._name(domain, 'domain')}.example/{name}"

    @staticmethod
    def _is_own(key: str) -> bool:
        domain = key.rpartition("/")[0]
        return any(domain == own or domain.endswith(f".{own}") for own in _OWN_DOMAINS)

    def _text(self, text: str, field: str) -> str:
        """Replace one string."""
        if text in self._names:
            return self._names[text]
        if self._is_plain(text) or text in self._values:
            return text
        if _CONSTANT.match(text) or text.startswith("system:") or self._is_hardware(text):
            return text
        if field in {"image", "imageID", "names"}:
            return self._name(text, "image")
        if (address := self._address(text)) is not None:
            return address
        if text.startswith("/"):
            return f"/{self._name(text, 'path')}"
        if "/" in text:
            if self._is_own(text) or self._is_hardware(text.rpartition("/")[0]):
                return text
            return "/".join(self._text(part, field) for part in text.split("/"))
        return self._name(text, "text")

    def _address(self, text: str) -> str | None:
        """Return the replacement of an IP address or network; None for other texts. Private ones stay."""
        try:
            found = ipaddress.ip_interface(text)
        except ValueError:
            return None
        if not found.ip.is_global:
            return text
        known = self._names.get(text)
        if known is None:
            word = f"address{found.version}"
            self._counts[word] = self._counts.get(word, 0) + 1
            known = self._names[text] = str(_PUBLIC[found.version] + self._counts[word])
        return known


def _is_removed(key: str, field: str) -> bool:
    """Return whether a field is removed; `field` is the name of the object around it."""
    return key in _REMOVED or (field == "devices" and key == "data")


def _is_flat(value: Json) -> bool:
    return all(isinstance(each, str) for each in value.values())


def _hardware_domains(objects: Iterable[Json]) -> Iterator[str]:
    """Yield the domains of drivers and of extended resources."""
    for each in objects:
        spec = each.get("spec") or {}
        if each["kind"] == "ResourceSlice":
            yield spec["driver"]
        elif each["kind"] == "Node":
            for resource in (each.get("status") or {}).get("capacity") or {}:
                if "/" in resource:
                    yield resource.rpartition("/")[0]


def anonymize(objects: list[Json]) -> list[Json]:
    """Return the objects with consistently replaced names."""
    anonymizer = Anonymizer(_hardware_domains(objects))
    anonymizer.register(objects)
    return [anonymizer.replace(each) for each in objects]
