"""RuntimeClass: a pod of a runtime class gets the class's overhead and scheduling, and no other overhead.

Facts: plugin/pkg/admission/runtimeclass, pkg/util/tolerations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apiserver.api.errors.field_errors import go_quote
from apiserver.api.errors.status import server_error
from apiserver.api.objects import Json
from apiserver.api.values.names import path_segment
from apiserver.api.values.quantity import Quantity
from apiserver.registry.definition.resource import Resource
from apiserver.registry.store.admission import Attributes, Plugin, forbidden

__all__ = ["RuntimeClass"]


class RuntimeClass(Plugin):
    name = "RuntimeClass"
    operations = frozenset({"CREATE"})

    def handles(self, resource: Resource) -> bool:
        return (resource.group, resource.plural) == ("", "pods")

    def admit(self, attributes: Attributes) -> None:
        found = _class(attributes)
        if found is None:
            return
        assert attributes.obj is not None
        spec: Json = attributes.obj["spec"]
        overhead = (found.get("overhead") or {}).get("podFixed") or {}
        if overhead:
            if spec.get("overhead") and not _are_equal(spec["overhead"], overhead):
                raise forbidden(
                    attributes, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
                )
            spec["overhead"] = dict(overhead)
        scheduling = found.get("scheduling")
        if scheduling:
            _select(attributes, spec, scheduling.get("nodeSelector") or {})
            merged = _merge_tolerations([*(spec.get("tolerations") or ()), *(scheduling.get("tolerations") or ())])
            if merged:
                spec["tolerations"] = merged

    def validate(self, attributes: Attributes) -> None:
        if attributes.subresource or attributes.obj is None:
            return
        found = _class(attributes)
        given, overhead = attributes.obj["spec"].get("overhead"), (found or {}).get("overhead")
        if overhead is not None:
            if not _are_equal(given or {}, overhead.get("podFixed") or {}):
                raise forbidden(
                    attributes, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
                )
        elif given is not None:
            text = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            raise forbidden(attributes, text)


def _class(attributes: Attributes) -> Json | None:
    """Return the class that a pod names. Raise 403 if it is missing, 500 for an invalid name."""
    name = None if attributes.subresource or attributes.obj is None else attributes.obj["spec"].get("runtimeClassName")
    if name is None:
        return None
    # The real plugin gets the class over HTTP, and its client refuses an invalid path segment.
    if not name:
        raise server_error("resource name may not be empty")
    if wrong := path_segment(name):
        raise server_error(f"invalid resource name {go_quote(name)}: [{', '.join(wrong)}]")
    found = attributes.ctx.lookup("node.k8s.io", "runtimeclasses", "", name)
    if found is None:
        raise forbidden(attributes, f"pod rejected: RuntimeClass {go_quote(name)} not found")
    return found


def _are_equal(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    return {key: Quantity.parse(str(text)) for key, text in left.items()} == {
        key: Quantity.parse(str(text)) for key, text in right.items()
    }


def _select(attributes: Attributes, spec: Json, wanted: Mapping[str, str]) -> None:
    selector = spec.get("nodeSelector") or {}
    for key, value in wanted.items():
        if selector.get(key, value) != value:
            text = (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value};"
                f" pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
            raise forbidden(attributes, text)
    if selector or wanted:
        spec["nodeSelector"] = {**selector, **wanted}


def _merge_tolerations(tolerations: list[Json]) -> list[Json]:
    """Remove tolerations that others cover; the first of equal ones stays."""
    kept: list[Json] = []
    for index, one in enumerate(tolerations):
        if any(_covers(other, one) for other in kept):
            continue
        if any(other != one and _covers(other, one) for other in tolerations[index + 1 :]):
            continue
        kept.append(one)
    return kept


def _covers(wide: Json, narrow: Json) -> bool:
    """Return whether one toleration tolerates everything that another does."""
    if wide == narrow:
        return True
    operator = wide.get("operator") or "Equal"
    if narrow.get("key", "") != wide.get("key", "") and (wide.get("key") or operator != "Exists"):
        return False
    if wide.get("effect") and narrow.get("effect", "") != wide["effect"]:
        return False
    seconds, asked = wide.get("tolerationSeconds"), narrow.get("tolerationSeconds")
    if wide.get("effect") == "NoExecute" and seconds is not None and (asked is None or asked > seconds):
        return False
    if operator == "Exists":
        return True
    same = narrow.get("operator") == "Equal" and narrow.get("value", "") == wide.get("value", "")
    return operator == "Equal" and same
