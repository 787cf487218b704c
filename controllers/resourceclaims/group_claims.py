"""The resource claim controller's part for PodGroups (gate DRAWorkloadResourceClaims): claims from templates.

A group's claim is created once, for the group. Its name is also recorded in the status of each pod. Facts: upstream's
pkg/controller/resourceclaim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from apiserver.api.objects import Json
from controllers.resourceclaims.generated_claims import GeneratedClaims, templates_of
from controllers.resourceclaims.pods import (
    ClaimNotCreated,
    ClaimReferenceError,
    group_claim_reference,
    group_key,
    group_name,
    not_for_group,
)
from controllers.runtime.controller import NotYetError
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informer, Informers
from controllers.runtime.kinds import POD_GROUPS, key_of

__all__ = ["GroupClaims"]

Handler = Callable[[Json], None]


def _claim_keys(group: Json) -> Iterator[str]:
    for entry in group["spec"].get("resourceClaims") or ():
        try:
            name = group_claim_reference(group, entry).name
        except ClaimReferenceError:
            continue
        if name:
            yield f"{group['metadata']['namespace']}/{name}"


class GroupClaims:
    """Groups and their claims.

    `add` enqueues a key. `member_changed` is called with each pod of a changed group, `gone` with deleted groups.
    """

    def __init__(
        self,
        informers: Informers,
        pods: Informer,
        claims: Informer,
        generated: GeneratedClaims,
        recorder: CoreEventRecorder,
        *,
        add: Callable[[str], None],
        member_changed: Handler,
        gone: Handler,
    ) -> None:
        self.informer = informers.of(POD_GROUPS)
        self._claims, self._generated, self._recorder = claims, generated, recorder
        self._add, self._member_changed, self._gone = add, member_changed, gone
        self._of_claim = self.informer.index("claims", _claim_keys)
        self._of_template = self.informer.index("claim templates", templates_of)
        self._members = pods.index("group", lambda pod: (key,) if (key := group_key(pod)) else ())

    def follow(self) -> None:
        """Register the event handlers. Call this after the callbacks are set up."""
        self.informer.on(self._on_change, lambda _, group: self._on_change(group), self._on_delete)

    def of(self, pod: Json) -> Json | None:
        """Return the group of a pod, or None for a pod without one. Raise NotYetError if the group does not exist."""
        name = group_name(pod)
        if name is None:
            return None
        group = self.informer.get(group_key(pod))
        if group is None:
            raise NotYetError(f'get PodGroup for Pod {key_of(pod)}: podgroup.scheduling.k8s.io "{name}" not found')
        return group

    def claim_changed(self, claim: Json) -> None:
        for group in self._of_claim.get(key_of(claim)):
            self._on_change(group)

    def template_changed(self, template: Json) -> None:
        for group in self._of_template.get(key_of(template)):
            self._on_change(group)

    def _on_change(self, group: Json) -> None:
        entries = group["spec"].get("resourceClaims") or ()
        if not entries:
            return
        if not group["metadata"].get("deletionTimestamp") and any(self._needs_work(group, entry) for entry in entries):
            self._add(f"podgroup:{key_of(group)}")
        for pod in self._members.get(key_of(group)):
            self._member_changed(pod)

    def _on_delete(self, group: Json) -> None:
        if group["spec"].get("resourceClaims"):
            self._gone(group)
            for key in _claim_keys(group):
                self._add(f"claim:{key}")

    def _needs_work(self, group: Json, entry: Json) -> bool:
        try:
            name = group_claim_reference(group, entry).name
        except ClaimReferenceError:
            return True
        missing = name is not None and self._claims.get(f"{group['metadata']['namespace']}/{name}") is None
        return missing and entry.get("resourceClaimTemplateName") is not None

    async def sync(self, key: str) -> None:
        """Create missing claims of a group, and record their names."""
        group = self.informer.get(key)
        if group is None or group["metadata"].get("deletionTimestamp"):
            return
        names = {}
        for entry in group["spec"].get("resourceClaims") or ():
            try:
                if (template := self._missing_template(group, entry)) is not None:
                    names[entry["name"]] = await self._generated.ensure(group, POD_GROUPS, entry["name"], template)
            except Exception as error:
                self._recorder.record(
                    group, "Warning", "FailedResourceClaimCreation", f"PodGroupResourceClaim {entry['name']}: {error}"
                )
                raise
        if names:
            await self._generated.record(group, POD_GROUPS, names)

    def _missing_template(self, group: Json, entry: Json) -> str | None:
        """Return the template of an entry without claim; None if its claim exists or is not generated."""
        template: str | None = entry.get("resourceClaimTemplateName")
        try:
            reference = group_claim_reference(group, entry)
        except ClaimNotCreated:
            return template
        claim = self._claims.get(f"{group['metadata']['namespace']}/{reference.name}") if reference.name else None
        if reference.name is None or (
            claim is not None and not (reference.check_owner and not_for_group(group, claim))
        ):
            return None
        return template
