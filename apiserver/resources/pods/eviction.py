"""Serve POST pods/eviction: delete a pod if its disruption budget allows it.

    pod has ended, is ending or pending  delete
    no budget                            delete
    two budgets                          500: not supported
    one budget                           delete if the pod is unhealthy and the budget allows that, or after one
                                         disruption is subtracted from the budget's status; 429 otherwise

Rules: pkg/registry/core/pod/storage/eviction.go. The status of a budget is written by the disruption controller.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from apiserver.api.errors.field_errors import Path, invalid
from apiserver.api.errors.status import StatusError, bad_request, conflict, forbidden, not_found, too_many_requests
from apiserver.api.errors.status import invalid as invalid_status
from apiserver.api.objects import Hub, Json
from apiserver.api.selectors.selectors import SelectorError, from_object
from apiserver.api.types.policy import Eviction
from apiserver.api.values.times import timestamp
from apiserver.registry.definition.options import DeleteOptions, Preconditions, WriteOptions, check_delete_options
from apiserver.registry.store.admission import Attributes
from apiserver.registry.verbs.delete import delete_object
from apiserver.registry.verbs.pipeline import admit, validate
from apiserver.registry.verbs.replace import replace_object
from apiserver.registry.verbs.unstored import build_manager_setter
from apiserver.registry.verbs.update import update_object
from apiserver.request.messages import User
from apiserver.resources.pods.conditions import set_condition

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.store.store import Store

__all__ = ["evict"]


#: The limit of recorded evictions that the budget's controller has not seen yet.
_MOST_DISRUPTED: Final = 2000
_RETRY_SECONDS: Final = 10
_VIOLATION: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_TWO_BUDGETS: Final = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
#: Budgets are updated as upstream's own client, not as the client that evicts.
_SERVER: Final = User("system:apiserver", groups=("system:masters",))
_MANAGER: Final = "kube-apiserver"
_NOTE_MANAGER: Final = build_manager_setter(Eviction, "policy/v1")
_UNREADABLE: Final = "ignoreStoreReadErrorWithClusterBreakingPotential"


async def evict(store: Store, ctx: Context, body: Json, options: WriteOptions) -> Json:
    attributes = Attributes("CREATE", ctx, ctx.name, body)
    handlers = store.handlers("CREATE", ctx)
    _NOTE_MANAGER(ctx, body)
    await admit(handlers, attributes)
    name = body["metadata"].get("name", "")
    if name != ctx.name:
        raise bad_request("name in URL does not match name in Eviction object")
    if (body.get("deleteOptions") or {}).get(_UNREADABLE):
        error = invalid(
            Path("deleteOptions") / _UNREADABLE, True, "can not be set for pod eviction, try after removing the option"
        )
        raise invalid_status("Eviction", "policy", name, [error])
    deletion, dry_run = _options(body, options.dry_run)
    await validate(handlers, attributes)
    await store.registry.consistent()
    entry = store.cache.get(store.key(ctx.namespace, name))
    if entry is None:
        raise not_found("pods", "", name)
    pod, budget = entry.obj, None
    if not _goes_anyway(pod):
        budgets = _budgets_of(store, ctx.namespace, pod)
        if len(budgets) > 1:
            raise StatusError(500, "", _TWO_BUDGETS)
        budget = budgets[0] if budgets else None
    if budget is None:
        await _delete(store, ctx, deletion, dry_run)
    elif _is_spare(pod, budget):
        await _delete_as_seen(store, ctx, deletion, dry_run, pod, budget["metadata"]["name"])
    else:
        await _take_disruption(store, ctx, name, budget["metadata"]["name"], deletion.dry_run)
        await _delete(store, ctx, deletion, dry_run)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _options(body: Json, asked: bool) -> tuple[DeleteOptions, list[str]]:
    """Return the deletion options of an eviction and the dry run, of the request (`asked`) or of the body."""
    given = body.get("deleteOptions") or {}
    own, dry_run = list(given.get("dryRun") or ()), ["All"] if asked else []
    if own and dry_run and own != dry_run:
        shown = " and ".join(f"[{' '.join(values)}]" for values in (dry_run, own))
        raise StatusError(500, "", f"Non-matching dry-run options in request and content: {shown}")
    conditions = given.get("preconditions") or {}
    preconditions = Preconditions(conditions.get("uid"), conditions.get("resourceVersion")) if conditions else None
    deletion = DeleteOptions(
        grace_period=given.get("gracePeriodSeconds"),
        preconditions=preconditions,
        propagation=given.get("propagationPolicy"),
        orphan=given.get("orphanDependents"),
        dry_run=bool(own or dry_run),
    )
    return deletion, own or dry_run


# --- budgets
# ----------------------------------------------------------------------------------------------------------------------


def _goes_anyway(pod: Json) -> bool:
    """Return whether no budget applies: the pod has ended, is ending or does not run yet."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod[
        "metadata"
    ]


def _budgets_of(store: Store, namespace: str, pod: Json) -> list[Json]:
    """Return the budgets that select the pod. Budgets with an invalid selector select none."""
    budgets = store.registry.stores.get(("policy", "poddisruptionbudgets"))
    found: list[Json] = []
    for entry in budgets.cache.list(budgets.resource.prefix(namespace)).entries if budgets is not None else ():
        try:
            if from_object(entry.obj["spec"].get("selector")).matches(pod["metadata"].get("labels") or {}):
                found.append(entry.obj)
        except SelectorError:
            continue
    return found


def _is_spare(pod: Json, budget: Json) -> bool:
    """Return whether the budget lets this unhealthy pod go: always, or while enough others are healthy."""
    if any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in (pod.get("status") or {}).get("conditions") or ()
    ):
        return False
    status = budget.get("status") or {}
    healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    always: bool = budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
    return always or healthy >= wanted > 0


async def _take_disruption(store: Store, ctx: Context, pod: str, name: str, dry_run: bool) -> None:
    """Subtract one disruption from the budget, or raise 429."""
    budgets = store.registry.stores["policy", "poddisruptionbudgets"]
    about = budgets.context(
        user=_SERVER,
        version="v1",
        verb="update",
        namespace=ctx.namespace,
        name=name,
        subresource="status",
    )
    about.manager = _MANAGER

    def take(budget: Hub) -> Hub:
        _check(budget)
        status, now = budget["status"], timestamp(ctx.now)
        status["disruptionsAllowed"] -= 1
        if not status["disruptionsAllowed"]:
            _allow_no_more(status, now)
        status.setdefault("disruptedPods", {})[pod] = now
        return budget

    await update_object(budgets, about, take, dry_run=dry_run)


def _check(budget: Json) -> None:
    metadata, status = budget["metadata"], budget.setdefault("status", {})
    name = metadata["name"]
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        raise _not_now(f"The disruption budget {name} is still being processed by the server.", _RETRY_SECONDS)
    if status.get("disruptionsAllowed", 0) < 0:
        raise forbidden("poddisruptionbudget", "policy", name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or ()) > _MOST_DISRUPTED:
        cause = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden("poddisruptionbudget", "policy", name, cause)
    if not status.get("disruptionsAllowed", 0):
        raise _not_now(_why_not(name, status), 0)


def _not_now(cause: str, retry_after: int) -> StatusError:
    return too_many_requests(_VIOLATION, retry_after, [{"reason": "DisruptionBudget", "message": cause}])


def _why_not(name: str, status: Json) -> str:
    found: Json = next(
        (condition for condition in status.get("conditions") or () if condition.get("type") == "DisruptionAllowed"), {}
    )
    reason, message = found.get("reason", ""), found.get("message", "") if found.get("status") == "False" else ""
    healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if message and reason == "SyncFailed":
        return f"The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
    if healthy <= wanted:
        return f"The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
    if message:
        return f"The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
    return f"The disruption budget {name} does not allow evicting pods currently"


def _allow_no_more(status: Json, now: str) -> None:
    """Set the condition that no disruption is left. Its transition time stays if the status is unchanged."""
    conditions = status.setdefault("conditions", [])
    at = next(
        (index for index, condition in enumerate(conditions) if condition.get("type") == "DisruptionAllowed"), None
    )
    condition: Json = {
        "type": "DisruptionAllowed",
        "status": "False",
        "lastTransitionTime": now,
        "reason": "InsufficientPods",
        "message": "",
    }
    if status.get("observedGeneration"):
        condition["observedGeneration"] = status["observedGeneration"]
    if at is None:
        conditions.append(condition)
        return
    if conditions[at].get("status") == "False":
        condition["lastTransitionTime"] = conditions[at].get("lastTransitionTime")
    conditions[at] = condition


# --- deletion
# ----------------------------------------------------------------------------------------------------------------------


async def _delete_as_seen(
    store: Store, ctx: Context, deletion: DeleteOptions, dry_run: list[str], pod: Json, budget: str
) -> None:
    """Delete the pod if it is unchanged since the budget was checked.

    A changed pod may be healthy now, so the eviction fails like a conflict with the budget.
    """
    given = deletion.preconditions
    conditions = Preconditions(given.uid if given else None, pod["metadata"]["resourceVersion"])
    try:
        await _delete(store, ctx, replace(deletion, preconditions=conditions), dry_run)
    except StatusError as error:
        if error.reason == "Conflict" and (given is None or given.resource_version is None):
            raise _not_now(
                f"The disruption budget {budget} is still being processed by the server.", _RETRY_SECONDS
            ) from None
        raise


async def _delete(store: Store, ctx: Context, deletion: DeleteOptions, dry_run: list[str]) -> None:
    """Set the reason of the disruption in the pod's status and delete the pod.

    The options are validated only after that.
    """
    if not dry_run:
        marked = await replace_object(store, ctx, lambda pod: _disrupted(ctx, pod, deletion.preconditions))
        if deletion.preconditions is not None and deletion.preconditions.resource_version:
            deletion = replace(
                deletion, preconditions=replace(deletion.preconditions, resource_version=str(marked.revision))
            )
    check_delete_options(deletion, dry_run)
    await delete_object(store, ctx, deletion, admitted=True)


def _disrupted(ctx: Context, pod: Hub, preconditions: Preconditions | None) -> Hub:
    """Return the pod with the disruption condition. Raise a conflict if the preconditions fail."""
    metadata = pod["metadata"]
    if preconditions is not None:
        for what, wanted, found, why in (
            ("UID", preconditions.uid, metadata["uid"], "deleted and then recreated"),
            ("ResourceVersion", preconditions.resource_version, metadata.get("resourceVersion"), "modified"),
        ):
            if wanted and wanted != found:
                cause = (
                    f"the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The"
                    f" object might have been {why}"
                )
                raise conflict("Pod", "", metadata["name"], cause)
    set_condition(
        pod.setdefault("status", {}), "DisruptionTarget", "True", timestamp(ctx.now), reason="EvictionByEvictionAPI",
        message="Eviction API: evicting",
    )  # fmt: skip
    return pod
