"""Roll-outs, proportional scaling, and rollbacks of Deployments."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from apiserver.api.objects import Json
from controllers.workloads.common.pod_states import is_terminal
from controllers.workloads.deployment.arithmetic import (
    is_rolling,
    max_surge,
    max_unavailable,
    new_replicas,
    proportion,
    replicas,
    sum_status,
    total_replicas,
)
from controllers.workloads.deployment.reconcile import ReconcilePass
from controllers.workloads.deployment.replicasets import (
    DESIRED,
    active,
    annotation_number,
    apply_rollback,
    by_age,
    is_same_template,
    last_revision,
    revision,
    rollback_target,
    without_rollback,
)
from controllers.workloads.deployment.status import is_complete


async def roll(this: ReconcilePass) -> None:
    """Run RollingUpdate: grow the new ReplicaSet within the surge, shrink old ones within the availability."""
    new = await this.ensure_new(create=True)
    assert new is not None
    if await _grow_new(this, new):
        return
    if await _shrink_old(this):
        return
    await _finish(this)


async def _grow_new(this: ReconcilePass, new: Json) -> bool:
    desired, size = replicas(this.deployment), replicas(new)
    if size < desired:
        desired = new_replicas(this.deployment, this.sets, size)
    return await this.scale(new, desired)


async def _shrink_old(this: ReconcilePass) -> bool:
    """Shrink old ReplicaSets, oldest first: unavailable pods first, then others."""
    old, new = active(this.old), this.new
    assert new is not None
    least = replicas(this.deployment) - max_unavailable(this.deployment)
    new_missing = replicas(new) - (new.get("status") or {}).get("availableReplicas", 0)
    room = total_replicas(this.sets) - least - new_missing
    if not total_replicas(old) or room <= 0:
        return False
    gone = 0
    for each in sorted(old, key=by_age):
        count = min(room - gone, replicas(each) - (each.get("status") or {}).get("availableReplicas", 0))
        if count > 0:
            await this.scale(each, replicas(each) - count)
            gone += count
    room = sum_status(this.sets, "availableReplicas") - least
    for each in sorted(active(this.old), key=by_age):
        count = min(replicas(each), room)
        if count > 0:
            await this.scale(each, replicas(each) - count)
            room -= count
            gone += count
    return gone > 0


async def recreate(this: ReconcilePass, pods_of: Callable[[Json], Iterable[Json]]) -> None:
    """Run Recreate: create no new pod before the last old one has ended."""
    new = await this.ensure_new(create=False)
    old = active(this.old)
    for each in old:
        await this.scale(each, 0)
    if old or _still_running(this, new, pods_of):
        return
    new = await this.ensure_new(create=True)
    assert new is not None
    await this.scale(new, replicas(this.deployment))
    await _finish(this)


def _still_running(this: ReconcilePass, new: Json | None, pods_of: Callable[[Json], Iterable[Json]]) -> bool:
    if sum_status(this.old, "replicas"):
        return True
    others = [each for each in this.sets if new is None or each["metadata"]["uid"] != new["metadata"]["uid"]]
    return any(not is_terminal(pod) for each in others for pod in pods_of(each))


async def _finish(this: ReconcilePass) -> None:
    if is_complete(this.deployment, this.deployment.get("status") or {}):
        await this.clean_up()


def is_scaled(this: ReconcilePass) -> bool:
    """Return whether the Deployment's size differs from the one stored in its ReplicaSets."""
    remembered = [annotation_number(each, DESIRED) for each in active(this.sets)]
    return any(desired is not None and desired != replicas(this.deployment) for desired in remembered)


async def scale(this: ReconcilePass) -> None:
    """Scale without a roll-out: the only active ReplicaSet, or each in proportion."""
    old, new, desired = this.old, this.new, replicas(this.deployment)
    alive = active([*old, new])
    if len(alive) <= 1:
        latest = new or max(old, key=by_age, default=None)
        single = alive[0] if alive else latest
        if single is not None:
            await this.scale(single, desired)
    elif _is_saturated(new, desired):
        for each in active(old):
            await this.scale(each, 0)
    elif is_rolling(this.deployment):
        await _spread(this, alive)


def _is_saturated(new: Json | None, desired: int) -> bool:
    """Return whether the new ReplicaSet is complete, so that old ones are not needed."""
    return (
        new is not None
        and replicas(new) == desired
        and annotation_number(new, DESIRED) == desired
        and (new.get("status") or {}).get("availableReplicas", 0) == desired
    )


async def _spread(this: ReconcilePass, alive: list[Json]) -> None:
    desired = replicas(this.deployment)
    to_add = (desired + max_surge(this.deployment) if desired > 0 else 0) - total_replicas(alive)
    # The rounding remainder goes to the largest; among equal ones to the youngest if pods are added.
    alive = sorted(alive, key=by_age, reverse=to_add > 0)
    alive.sort(key=replicas, reverse=True)
    sizes, added = [], 0
    for each in alive:
        share = proportion(this.deployment, each, to_add, added)
        sizes.append(replicas(each) + share)
        added += share
    if to_add:
        sizes[0] = max(0, sizes[0] + to_add - added)
    for each, size in zip(alive, sizes, strict=True):
        await this.scale(each, size, force=True)


async def roll_back(this: ReconcilePass) -> None:
    """Restore the template of an earlier revision, once."""
    await this.ensure_new(create=True)
    target = rollback_target(this.deployment)
    if target == 0 and not (target := last_revision(this.sets)):
        this.warn("DeploymentRollbackRevisionNotFound", "Unable to find last revision.")
        await this.write_spec(without_rollback(this.deployment))
        return
    found = next((each for each in this.sets if revision(each) == target), None)
    name = this.deployment["metadata"]["name"]
    if found is None:
        this.warn("DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to.")
        await this.write_spec(without_rollback(this.deployment))
    elif is_same_template(this.deployment["spec"]["template"], found["spec"]["template"]):
        this.warn(
            "DeploymentRollbackTemplateUnchanged",
            f'The rollback revision contains the same template as current deployment "{name}"',
        )
        await this.write_spec(without_rollback(this.deployment))
    else:
        await this.write_spec(without_rollback(apply_rollback(this.deployment, found)))
        this.record("DeploymentRollback", f'Rolled back deployment "{name}" to revision {target}')
