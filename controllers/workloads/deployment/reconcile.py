"""One pass over one Deployment: its ReplicaSets and all writes."""

from __future__ import annotations

from collections.abc import Iterable

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.runtime.client import is_reason
from controllers.runtime.kinds import DEPLOYMENTS, REPLICA_SETS
from controllers.workloads.common.component import Workload
from controllers.workloads.common.conditions import condition_of
from controllers.workloads.common.pod_control import in_terminating_namespace
from controllers.workloads.common.references import controller_reference, is_controlled_by
from controllers.workloads.common.templates import template_hash
from controllers.workloads.deployment.arithmetic import (
    history_limit,
    max_surge,
    new_replicas,
    progress_deadline,
    replicas,
)
from controllers.workloads.deployment.replicasets import (
    HASH_LABEL,
    REVISION,
    annotations_of,
    find_new,
    is_same_template,
    new_annotations,
    revision,
    sets_to_delete,
    size_annotations,
    with_annotations,
)
from controllers.workloads.deployment.status import PROGRESSING, counts, progressing, rollout, with_progress

_LONGEST_NAME = 253


class ReconcilePass:
    """One pass over one Deployment. Writes replace `deployment` and `sets`."""

    def __init__(self, owner: Workload, deployment: Json, sets: Iterable[Json], *, with_terminating: bool) -> None:
        self._owner, self._with_terminating = owner, with_terminating
        self._client, self._recorder = owner.client, owner.recorder
        self.deployment, self.sets = deployment, list(sets)

    @property
    def new(self) -> Json | None:
        """The ReplicaSet with the current template, or None."""
        return find_new(self.deployment, self.sets)

    @property
    def old(self) -> list[Json]:
        """The other ReplicaSets."""
        new = self.new
        return [each for each in self.sets if new is None or each["metadata"]["uid"] != new["metadata"]["uid"]]

    async def ensure_new(self, *, create: bool) -> Json | None:
        """Return the ReplicaSet with the current template after updating the revisions.

        With `create` a missing one is created. Raise StatusError.
        """
        new, number = self.new, max((revision(each) for each in self.old), default=0) + 1
        if new is not None:
            return await self._update_new(new, number)
        return await self._create(number) if create else None

    async def _update_new(self, new: Json, number: int) -> Json:
        given = new_annotations(self.deployment, new, number)
        seconds = self.deployment["spec"].get("minReadySeconds", 0)
        if given != annotations_of(new) or new["spec"].get("minReadySeconds", 0) != seconds:
            wanted = with_annotations(new, given)
            return await self._update_set({**wanted, "spec": {**new["spec"], "minReadySeconds": seconds}})
        progress = None
        missing = condition_of(self.deployment.get("status") or {}, PROGRESSING) is None
        if missing and progress_deadline(self.deployment) is not None:
            progress = progressing("True", "FoundNewReplicaSet", f'Found new replica set "{new["metadata"]["name"]}"')
        await self._write_revision(given.get(REVISION, ""), progress)
        return new

    async def _create(self, number: int) -> Json | None:
        status, size = self.deployment.get("status") or {}, new_replicas(self.deployment, self.sets, 0)
        wanted = self._new_set(number, size)
        name = wanted["metadata"]["name"]
        try:
            made = await self._client.create(REPLICA_SETS, wanted)
        except StatusError as error:
            if is_reason(error, "AlreadyExists"):
                made = await self._existing(name, status, error)
                self.sets.append(made)
                await self._write_revision(str(number), None)
                return made
            if not in_terminating_namespace(error):
                await self._report_failure(f'Failed to create new replica set "{name}": {error}')
            raise
        self._owner.record_write(self.deployment, REPLICA_SETS, made)
        self.sets.append(made)
        if size > 0:
            self._record_scaling(f"Scaled up replica set {name} from 0 to {size}")
        progress = None
        if progress_deadline(self.deployment) is not None:
            progress = progressing("True", "NewReplicaSetCreated", f'Created new replica set "{name}"')
        await self._write_revision(str(number), progress)
        return made

    def _new_set(self, number: int, size: int) -> Json:
        metadata, spec = self.deployment["metadata"], self.deployment["spec"]
        template, selector = spec["template"], spec["selector"]
        code = template_hash(template, (self.deployment.get("status") or {}).get("collisionCount"))
        labels = {**(template["metadata"].get("labels") or {}), HASH_LABEL: code}
        wanted: Json = {
            "apiVersion": REPLICA_SETS.api_version,
            "kind": REPLICA_SETS.kind,
            "metadata": {
                "name": f"{metadata['name'][: _LONGEST_NAME - len(code) - 1]}-{code}",
                "namespace": metadata["namespace"],
                "labels": labels,
                "ownerReferences": [controller_reference(self.deployment, DEPLOYMENTS)],
            },
            "spec": {
                "replicas": size,
                "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: code}},
                "template": {**template, "metadata": {**template["metadata"], "labels": labels}},
            },
        }
        if spec.get("minReadySeconds"):
            wanted["spec"]["minReadySeconds"] = spec["minReadySeconds"]
        given = new_annotations(self.deployment, wanted, number)
        return with_annotations(wanted, {**given, **self._sizes()})

    async def _existing(self, name: str, status: Json, error: StatusError) -> Json:
        """Return the existing ReplicaSet of that name if it has the right template.

        Otherwise increment the collision count, and raise the error.
        """
        found = await self._client.get(REPLICA_SETS, name, self.deployment["metadata"]["namespace"])
        if is_controlled_by(found, self.deployment) and is_same_template(
            found["spec"]["template"], self.deployment["spec"]["template"]
        ):
            return found
        await self._write({**status, "collisionCount": status.get("collisionCount", 0) + 1})
        raise error

    async def _report_failure(self, message: str) -> None:
        if progress_deadline(self.deployment) is not None:
            wanted = progressing("False", "ReplicaSetCreateError", message)
            status = with_progress(self.deployment.get("status") or {}, wanted)
            if status != self.deployment.get("status"):
                await self._write(status)
        self._recorder.record(self.deployment, "Warning", "ReplicaSetCreateError", message)

    async def scale(self, replica_set: Json, size: int, *, force: bool = False) -> bool:
        """Resize a ReplicaSet. Return whether the size has changed.

        `force` updates the size annotations even for the same size.
        """
        before, sizes = replicas(replica_set), self._sizes()
        given = annotations_of(replica_set)
        if size == before and not (force and any(given.get(name) != value for name, value in sizes.items())):
            return False
        wanted = with_annotations(replica_set, {**given, **sizes})
        made = await self._update_set({**wanted, "spec": {**replica_set["spec"], "replicas": size}})
        if size != before:
            direction = "up" if before < size else "down"
            self._record_scaling(f"Scaled {direction} replica set {made['metadata']['name']} from {before} to {size}")
        return size != before

    def _sizes(self) -> dict[str, str]:
        desired = replicas(self.deployment)
        return size_annotations(desired, desired + max_surge(self.deployment))

    async def _update_set(self, replica_set: Json) -> Json:
        made = await self._client.update(REPLICA_SETS, replica_set)
        self._owner.record_write(self.deployment, REPLICA_SETS, made)
        uid = made["metadata"]["uid"]
        self.sets = [made if each["metadata"]["uid"] == uid else each for each in self.sets]
        return made

    async def clean_up(self) -> None:
        """Delete old ReplicaSets beyond the limit. Raise StatusError."""
        limit = history_limit(self.deployment)
        for each in sets_to_delete(self.old, limit) if limit is not None else ():
            metadata = each["metadata"]
            try:
                await self._client.delete(REPLICA_SETS, metadata["name"], metadata["namespace"])
            except StatusError as error:
                if not is_reason(error, "NotFound"):
                    raise

    async def _write_revision(self, number: str, progress: Json | None) -> None:
        status, given = self.deployment.get("status") or {}, annotations_of(self.deployment)
        wanted = with_progress(status, progress) if progress is not None else status
        if given.get(REVISION) != number or wanted != status:
            self.deployment = with_annotations(self.deployment, {**given, REVISION: number})
            await self._write(wanted)

    async def write_counts(self) -> None:
        """Write the status without progress."""
        await self._write_changed(self._counts())

    async def write_rollout(self) -> Json:
        """Write the status with progress and failures. Return it."""
        return await self._write_changed(rollout(self.deployment, self._counts(), self.sets, self.new))

    def _counts(self) -> Json:
        return counts(self.deployment, self.sets, self.new, with_terminating=self._with_terminating)

    async def write_progress(self, progress: Json) -> None:
        """Write the status with another condition Progressing."""
        await self._write(with_progress(self.deployment.get("status") or {}, progress))

    async def _write_changed(self, status: Json) -> Json:
        if status != (self.deployment.get("status") or {}):
            await self._write(status)
        return status

    async def _write(self, status: Json) -> None:
        made = await self._client.update_status(DEPLOYMENTS, {**self.deployment, "status": status})
        self.deployment = self._owner.record_write(made)

    async def write_spec(self, deployment: Json) -> None:
        """Write the Deployment after a rollback."""
        self.deployment = self._owner.record_write(await self._client.update(DEPLOYMENTS, deployment))

    def warn(self, reason: str, message: str) -> None:
        self._recorder.record(self.deployment, "Warning", reason, message)

    def record(self, reason: str, message: str) -> None:
        self._recorder.record(self.deployment, "Normal", reason, message)

    def _record_scaling(self, message: str) -> None:
        self.record("ScalingReplicaSet", message)
