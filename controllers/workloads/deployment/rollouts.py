"""Roll-outs, proportional scaling, and rollbacks of Deployments."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controllers.runtime.kinds import Json
from controllers.workloads.common.pod_states import is_terminal
from controllers.workloads.deployment.arithmetic import (
    asked_for,
    counted,
    is_rolling,
    max_surge,
    max_unavailable,
    new_replicas,
    proportion,
    replicas,
)
from controllers.workloads.deployment.reconcile import Round
from controllers.workloads.deployment.replicasets import (
    DESIRED,
    active,
    annotation_number,
    by_age,
    last_revision,
    revision,
    rollback_target,
    rolled_back,
    same_template,
    without_rollback,
)
from controllers.workloads.deployment.status import is_complete


async def roll(this: Round) -> None:
    """Run RollingUpdate: grow the new ReplicaSet within the surge, shrink old ones within the availability."""
    new = await this.settle_new(create=True)
    assert new is not None
    if await _grow_new(this, new):
        return
    if await _shrink_old(this):
        return
    await _finish(this)


async def _grow_new(this: Round, new: Json) -> bool:
    wanted, size = replicas(this.deployment), replicas(new)
    if size < wanted:
        wanted = new_replicas(this.deployment, this.sets, size)
    return await this.scale(new, wanted)


async def _shrink_old(this: Round) -> bool:
    """Shrink old ReplicaSets, oldest first: unavailable pods first, then others."""
    old, new = active(this.old), this.new
    assert new is not None
    least = replicas(this.deployment) - max_unavailable(this.deployment)
    new_missing = replicas(new) - (new.get("status") or {}).get("availableReplicas", 0)
    room = asked_for(this.sets) - least - new_missing
    if not asked_for(old) or room <= 0:
        return False
    gone = 0
    for each in sorted(old, key=by_age):
        count = min(room - gone, replicas(each) - (each.get("status") or {}).get("availableReplicas", 0))
        if count > 0:
            await this.scale(each, replicas(each) - count)
            gone += count
    room = counted(this.sets, "availableReplicas") - least
    for each in sorted(active(this.old), key=by_age):
        count = min(replicas(each), room)
        if count > 0:
            await this.scale(each, replicas(each) - count)
            room -= count
            gone += count
    return gone > 0


async def recreate(this: Round, pods_of: Callable[[Json], Iterable[Json]]) -> None:
    """Run Recreate: create no new pod before the last old one has ended."""
    new = await this.settle_new(create=False)
    old = active(this.old)
    for each in old:
        await this.scale(each, 0)
    if old or _still_running(this, new, pods_of):
        return
    new = await this.settle_new(create=True)
    assert new is not None
    await this.scale(new, replicas(this.deployment))
    await _finish(this)


def _still_running(this: Round, new: Json | None, pods_of: Callable[[Json], Iterable[Json]]) -> bool:
    if counted(this.old, "replicas"):
        return True
    others = [each for each in this.sets if new is None or each["metadata"]["uid"] != new["metadata"]["uid"]]
    return any(not is_terminal(pod) for each in others for pod in pods_of(each))


async def _finish(this: Round) -> None:
    if is_complete(this.deployment, this.deployment.get("status") or {}):
        await this.clean_up()


def is_scaled(this: Round) -> bool:
    """Return whether the Deployment's size differs from the one stored in its ReplicaSets."""
    remembered = [annotation_number(each, DESIRED) for each in active(this.sets)]
    return any(desired is not None and desired != replicas(this.deployment) for desired in remembered)


async def scale(this: Round) -> None:
    """Scale without a roll-out: the only active ReplicaSet, or each in proportion."""
    old, new, wanted = this.old, this.new, replicas(this.deployment)
    alive = active([*old, new])
    if len(alive) <= 1:
        latest = new or max(old, key=by_age, default=None)
        single = alive[0] if alive else latest
        if single is not None:
            await this.scale(single, wanted)
    elif _is_saturated(new, wanted):
        for each in active(old):
            await this.scale(each, 0)
    elif is_rolling(this.deployment):
        await _spread(this, alive)


def _is_saturated(new: Json | None, wanted: int) -> bool:
    """Return whether the new ReplicaSet is complete, so that old ones are not needed."""
    return (
        new is not None
        and replicas(new) == wanted
        and annotation_number(new, DESIRED) == wanted
        and (new.get("status") or {}).get("availableReplicas", 0) == wanted
    )


async def _spread(this: Round, alive: list[Json]) -> None:
    wanted = replicas(this.deployment)
    to_add = (wanted + max_surge(this.deployment) if wanted > 0 else 0) - asked_for(alive)
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


async def roll_back(this: Round) -> None:
    """Restore the template of an earlier revision, once."""
    await this.settle_new(create=True)
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
    elif same_template(this.deployment["spec"]["template"], found["spec"]["template"]):
        this.warn(
            "DeploymentRollbackTemplateUnchanged",
            f'The rollback revision contains the same template as current deployment "{name}"',
        )
        await this.write_spec(without_rollback(this.deployment))
    else:
        await this.write_spec(without_rollback(rolled_back(this.deployment, found)))
        this.tell("DeploymentRollback", f'Rolled back deployment "{name}" to revision {target}')
