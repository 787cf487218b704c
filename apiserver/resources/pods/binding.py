"""POST pods/binding and pods/eviction: how a pod gets its node, and how it is asked to leave.

Rules: pkg/registry/core/pod/storage. A disruption budget is no kind here, so no eviction is refused for one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from apiserver.api.fielderrors import FieldError, Path, aggregate, not_supported, required
from apiserver.api.status import StatusError, bad_request, conflict, not_found
from apiserver.registry.attributes import Attributes
from apiserver.registry.metadata import timestamp
from apiserver.registry.options import DeleteOptions, Preconditions
from apiserver.resources.pods.conditions import set_condition

if TYPE_CHECKING:
    from apiserver.registry.options import WriteOptions
    from apiserver.registry.store import Store
    from apiserver.registry.strategy import Context

__all__ = ["bind", "create_binding", "evict"]

Json = dict[str, Any]


def _success(*, bare: bool = False) -> Json:
    status: Json = {"kind": "Status", "status": "Success", "code": 201}
    return status if bare else {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _check(body: Json) -> None:
    """The errors of a binding itself come as a bare 500."""
    target = body.get("target") or {}
    errors: list[FieldError] = []
    if target.get("kind", "") not in ("", "Node"):
        errors.append(not_supported(Path("target.kind"), target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        errors.append(required(Path("target.name")))
    if errors:
        raise StatusError(500, "", aggregate(errors))


def assign(ctx: Context, body: Json, pod: Json) -> Json:
    """The pod on its node; raises when its state does not allow that."""
    name = pod["metadata"]["name"]
    cause = ""
    if "deletionTimestamp" in pod["metadata"]:
        cause = f"pod {name} is being deleted, cannot be assigned to a host"
    elif pod["spec"].get("nodeName"):
        cause = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
    elif pod["spec"].get("schedulingGates"):
        cause = f"pod {name} has non-empty .spec.schedulingGates"
    if cause:
        raise conflict("pods/binding", "", name, cause)
    pod["spec"]["nodeName"] = body["target"]["name"]
    status = pod.setdefault("status", {})
    if ctx.features.enabled("ClearingNominatedNodeNameAfterBinding"):
        status.pop("nominatedNodeName", None)
    metadata = pod["metadata"]
    given = body.get("metadata") or {}
    if given.get("annotations"):
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **given["annotations"]}
    if given.get("labels"):
        metadata["labels"] = {**(metadata.get("labels") or {}), **given["labels"]}
    set_condition(status, "PodScheduled", "True", timestamp(ctx.now))
    return pod


async def bind(store: Store, ctx: Context, body: Json, options: WriteOptions) -> Json:
    """POST pods/NAME/binding."""
    metadata = body.get("metadata") or {}
    if ctx.name != metadata.get("name", ""):
        raise bad_request("name in URL does not match name in Binding object")
    _check(body)
    await store.replace(
        ctx, ctx.name, lambda pod: assign(ctx, body, pod), uid=metadata.get("uid") or "",
        resource_version=metadata.get("resourceVersion") or "", dry_run=options.dry_run,
    )  # fmt: skip
    return _success()


async def create_binding(store: Store, ctx: Context, body: Json, options: WriteOptions) -> Json:
    """POST bindings, the older way: the name stands in the body."""
    _check(body)
    name = (body.get("metadata") or {}).get("name", "")
    await store.replace(ctx, name, lambda pod: assign(ctx, body, pod), dry_run=options.dry_run)
    return _success(bare=True)


def _eviction_options(body: Json, dry_run: bool) -> DeleteOptions:
    given = body.get("deleteOptions") or {}
    conditions = given.get("preconditions") or {}
    preconditions = Preconditions(conditions.get("uid"), conditions.get("resourceVersion")) if conditions else None
    return DeleteOptions(
        grace_period=given.get("gracePeriodSeconds"), preconditions=preconditions, propagation=given.get("propagationPolicy") or "",
        orphan=given.get("orphanDependents"), dry_run=dry_run or "All" in (given.get("dryRun") or ()),
    )  # fmt: skip


async def evict(store: Store, ctx: Context, body: Json, options: WriteOptions) -> Json:
    """POST pods/NAME/eviction: a deletion that a disruption budget could refuse."""
    name = (body.get("metadata") or {}).get("name", "")
    if name != ctx.name:
        raise bad_request("name in URL does not match name in Eviction object")
    await store.admission.admit(Attributes("CREATE", ctx, ctx.name, body))
    if store.cache.get(store.resource.key(ctx.namespace, ctx.name)) is None:
        raise not_found("pods", "", ctx.name)
    deletion = _eviction_options(body, options.dry_run)
    if not deletion.dry_run:
        marked = await store.replace(ctx, ctx.name, lambda pod: _disrupted(ctx, pod, deletion.preconditions))
        if deletion.preconditions is not None and deletion.preconditions.resource_version:
            deletion = replace(deletion, preconditions=replace(deletion.preconditions, resource_version=str(marked.revision)))
    await store.delete(ctx, deletion)
    return _success()


def _disrupted(ctx: Context, pod: Json, preconditions: Preconditions | None) -> Json:
    """The pod with the reason of its end, if it still is the one that is meant."""
    metadata = pod["metadata"]
    if preconditions is not None:
        for what, wanted, found, why in (
            ("UID", preconditions.uid, metadata["uid"], "deleted and then recreated"),
            ("ResourceVersion", preconditions.resource_version, metadata.get("resourceVersion"), "modified"),
        ):
            if wanted and wanted != found:
                cause = f"the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might have been {why}"
                raise conflict("Pod", "", metadata["name"], cause)
    set_condition(
        pod.setdefault("status", {}), "DisruptionTarget", "True", timestamp(ctx.now), reason="EvictionByEvictionAPI",
        message="Eviction API: evicting",
    )  # fmt: skip
    return pod
