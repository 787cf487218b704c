"""Numbers and names of a StatefulSet's pods, and new pods. Pure."""

from __future__ import annotations

import re
from typing import Final

from apiserver.api.objects import Json
from controllers.runtime.kinds import STATEFUL_SETS
from controllers.workloads.common.references import controller_reference
from controllers.workloads.common.templates import build_pod

REVISION_LABEL: Final = "controller-revision-hash"
_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
_NUMBERED: Final = re.compile(r"(.*)-([0-9]+)$", re.ASCII | re.DOTALL)
_LARGEST: Final = 2**31 - 1


def replicas(owner: Json) -> int:
    return int(owner["spec"].get("replicas", 1))


def first_number(owner: Json) -> int:
    """Return the number of the first pod."""
    return int((owner["spec"].get("ordinals") or {}).get("start", 0))


def desired_numbers(owner: Json) -> range:
    """Return the desired numbers of pods."""
    return range(first_number(owner), first_number(owner) + replicas(owner))


def split_name(name: str) -> tuple[str, int]:
    """Split a pod's name; ("", -1) without a number."""
    match = _NUMBERED.fullmatch(name)
    if match is None:
        return "", -1
    number = int(match[2])
    return match[1], number if number <= _LARGEST else -1


def number_of(pod: Json) -> int:
    """Return the pod's number, or -1."""
    return split_name(pod["metadata"]["name"])[1]


def is_member(owner: Json, pod: Json) -> bool:
    """Return whether a pod's name belongs to the owner."""
    return split_name(pod["metadata"]["name"])[0] == str(owner["metadata"]["name"])


def claim_name(owner: Json, template: Json, number: int) -> str:
    return f"{template['metadata']['name']}-{owner['metadata']['name']}-{number}"


def claim_templates(owner: Json) -> list[Json]:
    return list(owner["spec"].get("volumeClaimTemplates") or ())


def revision_of(pod: Json) -> str:
    return str((pod["metadata"].get("labels") or {}).get(REVISION_LABEL, ""))


def is_parallel(owner: Json) -> bool:
    """Return whether pods are created and deleted in parallel."""
    return bool(owner["spec"].get("podManagementPolicy") == "Parallel")


def has_identity(owner: Json, pod: Json) -> bool:
    """Return whether name and label match the pod's number."""
    labels = pod["metadata"].get("labels") or {}
    return is_member(owner, pod) and labels.get(_NAME_LABEL) == pod["metadata"]["name"]


def has_storage(owner: Json, pod: Json) -> bool:
    """Return whether each claim template has its volume."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    for template in claim_templates(owner):
        claim = volumes.get(template["metadata"]["name"], {}).get("persistentVolumeClaim") or {}
        if claim.get("claimName") != claim_name(owner, template, number_of(pod)):
            return False
    return True


def with_identity(owner: Json, pod: Json) -> Json:
    number = number_of(pod)
    name = f"{owner['metadata']['name']}-{number}"
    labels = {**(pod["metadata"].get("labels") or {}), _NAME_LABEL: name, _INDEX_LABEL: str(number)}
    return {**pod, "metadata": {**pod["metadata"], "name": name, "labels": labels}}


def with_storage(owner: Json, pod: Json) -> Json:
    """Return the pod with the volumes of the claim templates first, replacing others of the same names."""
    number = number_of(pod)
    own = {
        template["metadata"]["name"]: {
            "name": template["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": claim_name(owner, template, number)},
        }
        for template in claim_templates(owner)
    }
    others = [volume for volume in pod["spec"].get("volumes") or () if volume["name"] not in own]
    volumes = [*own.values(), *others]
    return {**pod, "spec": {**pod["spec"], "volumes": volumes}} if volumes else pod


def new_pod(owner: Json, revision: str, number: int) -> Json:
    """Build the pod of a number from the owner's template, which is that of the revision."""
    name = f"{owner['metadata']['name']}-{number}"
    made = build_pod(owner["spec"]["template"], owner, controller_reference(owner, STATEFUL_SETS))
    labels = {**(made["metadata"].get("labels") or {}), REVISION_LABEL: revision}
    made = {**made, "metadata": {**made["metadata"], "name": name, "labels": labels}}
    spec = {**made["spec"], "hostname": name}
    if owner["spec"].get("serviceName"):
        spec["subdomain"] = owner["spec"]["serviceName"]
    return with_storage(owner, with_identity(owner, {**made, "spec": spec}))


def keeps_current(owner: Json, number: int) -> bool:
    """Return whether a missing pod is recreated with the current revision instead of the update revision."""
    strategy, place = owner["spec"].get("updateStrategy") or {}, number - first_number(owner)
    if strategy.get("rollingUpdate") is not None:
        return place < int(strategy["rollingUpdate"].get("partition", 0))
    current = (owner.get("status") or {}).get("currentReplicas", 0)
    return strategy.get("type") == "RollingUpdate" and place < current
