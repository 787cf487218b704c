"""The volume claims of a StatefulSet's pods: creation with the pods, and ownership by the retention policy.

A claim owned by the StatefulSet is deleted with it (`whenDeleted: Delete`). A claim owned by a surplus pod is deleted
with the pod (`whenScaled: Delete`).
"""

from __future__ import annotations

from collections.abc import Callable

from apiserver.api.objects import Json
from controllers.runtime.client import Client, StatusError, is_reason
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informer
from controllers.runtime.kinds import PODS, STATEFUL_SETS, VOLUME_CLAIMS, Kind
from controllers.workloads.common.references import controller_reference
from controllers.workloads.statefulset.identity import claim_name, claim_templates, desired_numbers, number_of


class ClaimError(Exception):
    """A claim is unusable."""


class Claims:
    """The claims of all StatefulSets. `record_write` is called with each written claim and its owner."""

    def __init__(
        self,
        client: Client,
        claims: Informer,
        recorder: CoreEventRecorder,
        record_write: Callable[[Json, Json], object],
    ) -> None:
        self._client, self._claims, self._recorder, self._record_write = client, claims, recorder, record_write

    def _of(self, owner: Json, pod: Json) -> list[tuple[Json, Json | None]]:
        """Return the desired and the existing state of each claim of a pod."""
        namespace, found = owner["metadata"]["namespace"], []
        for template in claim_templates(owner):
            name = claim_name(owner, template, number_of(pod))
            selected = (owner["spec"].get("selector") or {}).get("matchLabels") or {}
            labels = {**(template["metadata"].get("labels") or {}), **selected}
            metadata = {**template["metadata"], "name": name, "namespace": namespace, "labels": labels}
            claim = {name: value for name, value in template.items() if name != "status"}
            desired = {**claim, "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
            found.append((desired, self._claims.get(f"{namespace}/{name}")))
        return found

    async def create(self, owner: Json, pod: Json) -> None:
        """Create missing claims. Raise ClaimError with all errors."""
        wrong = []
        for desired, claim in self._of(owner, pod):
            name = desired["metadata"]["name"]
            if claim is None:
                wrong += await self._create(owner, pod, desired)
            elif claim["metadata"].get("deletionTimestamp"):
                wrong.append(f"pvc {name} is being deleted")
        if wrong:
            raise ClaimError(wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]")

    async def _create(self, owner: Json, pod: Json, desired: Json) -> list[str]:
        name, which = desired["metadata"]["name"], pod["metadata"]["name"]
        set_name = owner["metadata"]["name"]
        try:
            self._record_write(owner, await self._client.create(VOLUME_CLAIMS, desired))
        except StatusError as error:
            if not is_reason(error, "AlreadyExists"):
                text = f"Create Claim {name} for Pod {which} in StatefulSet {set_name} failed error: {error}"
                self._recorder.record(owner, "Warning", "FailedCreate", text)
            return [f"failed to create PVC {name}: {error}"]
        text = f"Create Claim {name} Pod {which} in StatefulSet {set_name} success"
        self._recorder.record(owner, "Normal", "SuccessfulCreate", text)
        return []

    def has_owners(self, owner: Json, pod: Json) -> bool:
        """Return whether all existing claims have the owners required by the policy."""
        return all(claim is None or _has_owners(claim, owner, pod) for _, claim in self._of(owner, pod))

    async def set_owners(self, owner: Json, pod: Json) -> None:
        """Set these owners. Raise StatusError."""
        for _, claim in self._of(owner, pod):
            if claim is None:
                continue
            if _is_foreign(claim, owner, pod):
                text = (
                    f"PersistentVolumeClaim {claim['metadata']['name']} has a conflicting OwnerReference that acts as "
                    "a manging controller, the retention policy is ignored for this claim"
                )
                self._recorder.record(owner, "Warning", "ConflictingController", text)
            if not _has_owners(claim, owner, pod):
                desired = {
                    **claim,
                    "metadata": {**claim["metadata"], "ownerReferences": _owner_references(claim, owner, pod)},
                }
                self._record_write(owner, await self._client.update(VOLUME_CLAIMS, desired))

    def is_stale(self, owner: Json, pod: Json) -> bool:
        """Return whether a claim belongs to an earlier pod of the same name and will be deleted with it."""
        if _policy(owner)[1] != "Delete":
            return False
        return any(claim is not None and _has_stale(claim, pod, PODS) for _, claim in self._of(owner, pod))


def _policy(owner: Json) -> tuple[str, str]:
    """Return the retention policies (whenDeleted, whenScaled)."""
    given = owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    return given.get("whenDeleted", "Retain"), given.get("whenScaled", "Retain")


def _desired_owners(owner: Json, pod: Json) -> tuple[bool, bool]:
    """Return whether the StatefulSet, and whether the pod, must own a claim."""
    when_deleted, when_scaled = _policy(owner)
    condemned = when_scaled == "Delete" and number_of(pod) not in desired_numbers(owner)
    return when_deleted == "Delete" and not condemned, condemned


def _refers_to(reference: Json, obj: Json, kind: Kind) -> bool:
    identity = (reference["apiVersion"], reference["kind"], reference["name"])
    return identity == (kind.api_version, kind.kind, obj["metadata"]["name"])


def _references(claim: Json) -> list[Json]:
    return claim["metadata"].get("ownerReferences") or []


def _has_stale(claim: Json, obj: Json, kind: Kind) -> bool:
    """Return whether the claim belongs to another object of the same name."""
    found = next((each for each in _references(claim) if _refers_to(each, obj, kind)), None)
    return found is not None and found["uid"] != obj["metadata"].get("uid", "")


def _is_owned(claim: Json, obj: Json) -> bool:
    return any(each["uid"] == obj["metadata"].get("uid", "") for each in _references(claim))


def _is_foreign(claim: Json, owner: Json, pod: Json) -> bool:
    """Return whether another controller owns the claim although the policy deletes claims."""
    if _policy(owner) == ("Retain", "Retain"):
        return False
    for each in _references(claim):
        for obj, kind in ((owner, STATEFUL_SETS), (pod, PODS)):
            if _refers_to(each, obj, kind):
                if each["uid"] != obj["metadata"].get("uid", ""):
                    return True
                break
        else:
            if each.get("controller"):
                return True
    return False


def _has_owners(claim: Json, owner: Json, pod: Json) -> bool:
    if _has_stale(claim, owner, STATEFUL_SETS) or _has_stale(claim, pod, PODS):
        # The claim will be garbage collected: leave it unchanged.
        return True
    if _is_foreign(claim, owner, pod):
        return not (_is_owned(claim, owner) or _is_owned(claim, pod))
    own = {obj["metadata"].get("uid", "") for obj in (owner, pod)}
    if any(each["uid"] in own and not each.get("controller") for each in _references(claim)):
        return False
    return _desired_owners(owner, pod) == (_is_owned(claim, owner), _is_owned(claim, pod))


def _owner_references(claim: Json, owner: Json, pod: Json) -> list[Json]:
    """Return the desired owner references of a claim."""
    others = [
        each
        for each in _references(claim)
        if not (_refers_to(each, owner, STATEFUL_SETS) or _refers_to(each, pod, PODS))
    ]
    if _is_foreign(claim, owner, pod):
        return others
    by_owner, by_pod = _desired_owners(owner, pod)
    if by_owner:
        others.append(controller_reference(owner, STATEFUL_SETS))
    if by_pod:
        others.append(controller_reference(pod, PODS))
    return others
