"""The writes of users in a recording, as actions that can be replayed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from kubedra.cluster_copy.adapt import adapt_node, is_token
from kubedra.cluster_copy.manifests import CONTROLLER_ANNOTATIONS, to_manifest
from kubedra.recording.changes import Change
from kubedra.recording.outcomes import End, ending
from kubedra.recording.writers import changed_managers, is_generated, is_hardware, is_own_manager
from kubedra.runtime.objects import Json

__all__ = ["Action", "Actions", "annotate_end", "find_ends", "from_changes"]

_EXIT_AFTER: Final = "kubedra.dev/exit-after"
_EXIT_CODE: Final = "kubedra.dev/exit-code"
_EMULATED: Final = "kubedra.dev/emulated"
#: Metadata that servers and controllers set.
_SYSTEM_METADATA: Final = frozenset(
    {"resourceVersion", "generation", "managedFields", "uid", "creationTimestamp", "deletionTimestamp",
     "deletionGracePeriodSeconds", "ownerReferences", "selfLink", "finalizers"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Action:
    """One write. `body` is the object to create, or the merge patch; `uri` the request of an audit log."""

    time: datetime
    verb: Literal["create", "patch", "delete", "request"]
    kind: str
    api_version: str
    namespace: str
    name: str
    body: Json = field(default_factory=dict)
    method: str = ""
    uri: str = ""
    content_type: str = "application/json"


@dataclass(slots=True)
class Actions:
    """The writes of users, and the number of writes that were left to the control plane."""

    users: list[Action] = field(default_factory=list)
    control_plane: int = 0


def find_ends(changes: Iterable[Change], speed: float = 1.0) -> dict[str, End]:
    """Return how pods ended, by the uid of the pod, and of its Job for the last pod of one."""
    ends: dict[str, End] = {}
    for change in changes:
        obj = change.object
        if obj["kind"] != "Pod" or (end := ending(obj.get("status") or {})) is None:
            continue
        end = End(end.seconds / speed, end.code)
        ends[obj["metadata"].get("uid", "")] = end
        for owner in obj["metadata"].get("ownerReferences") or ():
            if owner["kind"] == "Job":
                ends[owner["uid"]] = end
    return ends


def annotate_end(obj: Json, end: End | None) -> None:
    """Let the emulated containers of a Pod or Job end as they did in the recording."""
    if end is None:
        return
    holder = obj["spec"]["template"] if obj["kind"] == "Job" else obj
    metadata = holder.setdefault("metadata", {})
    values = {_EXIT_AFTER: f"{end.seconds:g}s", **({_EXIT_CODE: str(end.code)} if end.code else {})}
    metadata["annotations"] = {**values, **(metadata.get("annotations") or {})}


def from_changes(changes: Iterable[Change], ends: Mapping[str, End]) -> Actions:
    """Return the users' writes of a recording."""
    actions = Actions()
    known: dict[tuple[str, str, str], Json] = {}
    deleting: set[str] = set()
    for change in changes:
        old = known.get(change.key)
        if change.type == "DELETED":
            known.pop(change.key, None)
        else:
            known[change.key] = change.object
        if change.type == "STATE":
            continue
        found = list(_of_change(change, old, ends, deleting))
        actions.users += found
        actions.control_plane += not found
    return actions


def _of_change(change: Change, old: Json | None, ends: Mapping[str, End], deleting: set[str]) -> Iterator[Action]:
    obj = change.object
    if is_generated(obj) or (obj["kind"] == "Secret" and is_token(obj)):
        return
    uid = obj["metadata"].get("uid", "")
    if change.type == "ADDED":
        yield from _creation(change, ends)
        return
    if change.type == "DELETED" or "deletionTimestamp" in obj["metadata"]:
        if uid not in deleting and not _is_disrupted(obj):
            yield _action(change, "delete")
        deleting.add(uid)
        return
    if old is not None:
        patch = _changed_readiness(old, obj) if obj["kind"] == "Node" else {}
        managers = list(changed_managers(old, obj))
        users = [manager for manager, part in managers if part != "status" and not is_own_manager(manager)]
        if users or not managers or is_hardware(obj["kind"]):
            patch = _merge(patch, merge_patch(_own_part(old), _own_part(obj)))
        if patch:
            yield _action(change, "patch", patch)


def _creation(change: Change, ends: Mapping[str, End]) -> Iterator[Action]:
    obj = {**change.object, "metadata": {**change.object["metadata"]}}
    if obj["kind"] == "Node":
        adapt_node(obj)
    manifest = to_manifest(obj)
    if manifest is None:
        return
    if obj["kind"] == "Pod" and obj["spec"].get("nodeName"):
        manifest["spec"]["nodeName"] = obj["spec"]["nodeName"]
    if obj["kind"] in {"Pod", "Job"}:
        annotate_end(manifest, ends.get(obj["metadata"].get("uid", "")))
    yield _action(change, "create", manifest)


def _action(change: Change, verb: Literal["create", "patch", "delete"], body: Json | None = None) -> Action:
    obj, metadata = change.object, change.object["metadata"]
    namespace = metadata.get("namespace", "")
    return Action(change.time, verb, obj["kind"], obj["apiVersion"], namespace, metadata["name"], body or {})


def _is_disrupted(obj: Json) -> bool:
    """Return whether the control plane evicts a pod."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "DisruptionTarget" and each["status"] == "True" for each in conditions)


def _is_ready(node: Json) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _changed_readiness(old: Json, new: Json) -> Json:
    """Return the patch that starts or stops the emulation of a node whose kubelet came or went."""
    if _is_ready(old) == _is_ready(new):
        return {}
    return {"metadata": {"annotations": {_EMULATED: "true" if _is_ready(new) else None}}}


def _own_part(obj: Json) -> Json:
    """Return the part of an object that users write."""
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _SYSTEM_METADATA}
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {key: value for key, value in annotations.items() if key not in CONTROLLER_ANNOTATIONS}
    part = {name: value for name, value in obj.items() if name not in {"status", "metadata", "apiVersion", "kind"}}
    if obj["kind"] == "Pod":
        part["spec"] = {name: value for name, value in part["spec"].items() if name != "nodeName"}
    elif obj["kind"] == "Node":
        spec = {**(part.get("spec") or {})}
        taints = spec.get("taints") or ()
        spec["taints"] = [each for each in taints if not each["key"].startswith("node.kubernetes.io/")]
        part["spec"] = spec
    return {**part, "metadata": metadata}


def merge_patch(old: Any, new: Any) -> Any:
    """Return the merge patch (RFC 7386) from one object to another; {} if they are equal."""
    patch: Json = {}
    for name in old.keys() | new.keys():
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            patch[name] = merge_patch(before, after)
        else:
            patch[name] = after
    return patch


def _merge(first: Json, second: Json) -> Json:
    """Return both patches as one."""
    merged = {**first}
    for name, value in second.items():
        present = merged.get(name)
        merged[name] = _merge(present, value) if isinstance(present, dict) and isinstance(value, dict) else value
    return merged
