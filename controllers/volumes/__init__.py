"""Persistent volumes and claims: rules shared by the binder, the provisioner, protection and the scheduler.

A claim and a volume are bound when each names the other and the claim has the annotation bind-completed. With a class
that waits for the first consumer, the scheduler chooses the volume and its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from apiserver.api.helpers.storage_classes import class_of
from apiserver.api.objects import Json
from apiserver.api.selectors.node_selectors import InvalidNodeSelector, NodeSelector
from apiserver.api.selectors.selectors import SelectorError, from_object
from apiserver.api.values.quantity import Quantity

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
#: Annotations that name the provisioner of a claim's volume.
PROVISIONER: Final = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
#: The provisioner of classes with manually created volumes.
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
WAITS: Final = "WaitForFirstConsumer"


class VolumeError(Exception):
    """A claim or class is invalid; the text gives the reason."""


def annotations_of(obj: Json) -> Mapping[str, str]:
    """Return an object's annotations; never None."""
    return obj["metadata"].get("annotations") or {}


def class_name(obj: Json) -> str:
    """Return the storage class of a claim or volume, "" for none."""
    return class_of(obj) or ""


def pod_claims(pod: Json) -> Iterator[tuple[str, bool]]:
    """Yield the names of the claims of a pod's volumes; the flag marks claims of ephemeral volumes."""
    for volume in pod["spec"].get("volumes") or ():
        if source := volume.get("persistentVolumeClaim"):
            yield source["claimName"], False
        elif volume.get("ephemeral"):
            yield f"{pod['metadata']['name']}-{volume['name']}", True


def is_controlled_by(claim: Json, pod: Json) -> bool:
    """Return whether the claim was created for the pod."""
    owners = claim["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") and owner["uid"] == pod["metadata"]["uid"] for owner in owners)


def not_for_pod(pod: Json, claim: Json) -> str | None:
    """Return the reason why the claim is not that of the pod's ephemeral volume, or None."""
    if is_controlled_by(claim, pod):
        return None
    mine, its = pod["metadata"], claim["metadata"]
    return (
        f"PVC {its['namespace']}/{its['name']} was not created for pod {mine['namespace']}/{mine['name']}"
        " (pod is not owner)"
    )


def storage(amounts: Mapping[str, str] | None) -> Quantity:
    """Return the amount of storage in a resource list, 0 if missing."""
    return Quantity.parse((amounts or {}).get("storage", "0"))


def requested_size(claim: Json) -> Quantity:
    """Return the minimum size of the claim's volume."""
    return storage((claim["spec"].get("resources") or {}).get("requests"))


def is_fully_bound(claim: Json) -> bool:
    """Return whether the binder has finished with the claim."""
    return bool(claim["spec"].get("volumeName")) and BIND_COMPLETED in annotations_of(claim)


def is_bound_to(volume: Json, claim: Json) -> bool:
    """Return whether the volume names the claim, with its uid or without a uid."""
    ref = volume["spec"].get("claimRef")
    metadata = claim["metadata"]
    if ref is None or (ref.get("namespace"), ref.get("name")) != (metadata["namespace"], metadata["name"]):
        return False
    return ref.get("uid", "") in ("", metadata["uid"])


def with_claim_reference(volume: Json, claim: Json) -> Json:
    """Return the volume with a reference to the claim; the same object if nothing changes.

    The annotation bound-by-controller marks volumes that did not name the claim before.
    """
    metadata, ref = claim["metadata"], volume["spec"].get("claimRef") or {}
    named = tuple(ref.get(field) for field in ("namespace", "name", "uid"))
    changed = volume
    if named != (metadata["namespace"], metadata["name"], metadata["uid"]):
        reference = {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        }
        changed = {**volume, "spec": {**volume["spec"], "claimRef": reference}}
    if not is_bound_to(volume, claim) and BOUND_BY_CONTROLLER not in annotations_of(volume):
        changed = with_annotations(changed, {BOUND_BY_CONTROLLER: "yes"})
    return changed


def with_annotations(obj: Json, added: Mapping[str, str]) -> Json:
    """Return the object with additional annotations."""
    return {**obj, "metadata": {**obj["metadata"], "annotations": {**annotations_of(obj), **added}}}


def without_annotation(obj: Json, name: str) -> Json:
    """Return the object without one annotation."""
    rest = {key: value for key, value in annotations_of(obj).items() if key != name}
    return {**obj, "metadata": {**obj["metadata"], "annotations": rest}}


def volume_mode(obj: Json) -> str:
    """Return the volume mode of a claim or volume: Filesystem or Block."""
    return str(obj["spec"].get("volumeMode") or "Filesystem")


def attributes_class(obj: Json) -> str:
    """Return the VolumeAttributesClass of a claim or volume, "" for none."""
    return obj["spec"].get("volumeAttributesClassName") or ""


def has_access_modes(volume: Json, claim: Json) -> bool:
    """Return whether the volume has all access modes requested by the claim."""
    return set(claim["spec"].get("accessModes") or ()) <= set(volume["spec"].get("accessModes") or ())


def reaches(volume: Json, node: Json) -> bool:
    """Return whether the volume's node affinity matches the node's labels. Raise InvalidNodeSelector."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    if required is None:
        return True
    return NodeSelector.parse(required).match({"metadata": {"labels": node["metadata"].get("labels") or {}}})


def in_topologies(terms: Iterable[Json], labels: Mapping[str, str]) -> bool:
    """Return whether a node with these labels is in a topology allowed by a class."""
    terms = list(terms)
    if not terms:
        return True
    return any(
        expressions and all(labels.get(one["key"]) in (one.get("values") or ()) for one in expressions)
        for expressions in (term.get("matchLabelExpressions") for term in terms)
    )


def waits_for_first_consumer(claim: Json, storage_class: Json | None) -> bool:
    """Return whether the claim waits for its first consumer. Raise VolumeError."""
    if not class_name(claim) or storage_class is None:
        return False
    binding = storage_class.get("volumeBindingMode")
    if binding is None:
        raise VolumeError(f'VolumeBindingMode not set for StorageClass "{class_name(claim)}"')
    return bool(binding == WAITS)


def find_volume(
    claim: Json,
    volumes: Iterable[Json],
    *,
    attributes: bool,
    named_only: bool = False,
    node: Json | None = None,
    taken: Iterable[str] = (),
) -> Json | None:
    """Return the volume for a claim, or None. Raise VolumeError.

    A volume that names the claim comes first, then (unless `named_only`) the smallest available volume that fits and is
    not among the assigned ones (`taken`). It must be reachable from `node`.
    `attributes` enables VolumeAttributesClasses.
    """
    if attributes_class(claim) and not attributes:
        raise VolumeError(
            f"unsupported volumeAttributesClassName is set on claim {claim['metadata']['namespace']}/"
            f"{claim['metadata']['name']} when the feature-gate VolumeAttributesClass is disabled"
        )
    size, labels, best, best_size = requested_size(claim), _selector(claim), None, Quantity.of(0)
    for volume in volumes:
        if volume["metadata"]["name"] in taken or not _is_candidate(volume, claim, size, attributes):
            continue
        reachable = node is None or _reaches(volume, node)
        if is_bound_to(volume, claim):
            return volume if reachable else None
        if named_only or (volume.get("status") or {}).get("phase") != "Available" or not reachable:
            continue
        if class_name(volume) != class_name(claim) or not has_access_modes(volume, claim):
            continue
        if labels is not None and not labels.matches(volume["metadata"].get("labels") or {}):
            continue
        capacity = storage(volume["spec"].get("capacity"))
        if best is None or capacity < best_size:
            best, best_size = volume, capacity
    return best


def _selector(claim: Json) -> Any:
    selector = claim["spec"].get("selector")
    if selector is None:
        return None
    try:
        return from_object(selector)
    except SelectorError as error:
        metadata = claim["metadata"]
        where = f"{metadata['namespace']}/{metadata['name']}"
        raise VolumeError(f"error creating internal label selector for claim: {where}: {error}") from error


def _is_candidate(volume: Json, claim: Json, size: Quantity, attributes: bool) -> bool:
    spec = volume["spec"]
    return (
        (spec.get("claimRef") is None or is_bound_to(volume, claim))
        and storage(spec.get("capacity")).compare(size) >= 0
        and volume_mode(volume) == volume_mode(claim)
        and attributes_class(volume) == (attributes_class(claim) if attributes else "")
        and not volume["metadata"].get("deletionTimestamp")
    )


def _reaches(volume: Json, node: Json) -> bool:
    try:
        return reaches(volume, node)
    except InvalidNodeSelector:
        return False
