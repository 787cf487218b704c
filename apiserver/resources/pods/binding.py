"""Serve POST pods/binding, which assigns a pod to a node. Rules: pkg/registry/core/pod/storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apiserver.api.errors.field_errors import FieldError, Path, aggregate, not_supported, required
from apiserver.api.errors.status import StatusError, bad_request, conflict
from apiserver.api.objects import Hub, Json
from apiserver.api.types.core.pods import Binding
from apiserver.api.values.times import timestamp
from apiserver.registry.store.admission import Attributes
from apiserver.registry.verbs.pipeline import admit, validate
from apiserver.registry.verbs.replace import replace_object
from apiserver.registry.verbs.unstored import build_manager_setter, validate_admission
from apiserver.resources.pods.conditions import set_condition

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.definition.options import WriteOptions
    from apiserver.registry.store.store import Store

__all__ = ["bind", "create_binding"]


_NOTE_MANAGER: Final = build_manager_setter(Binding, "v1")


def _success() -> Json:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _check(body: Json) -> None:
    """Validate a binding. Its errors are returned as a plain 500, as upstream's are."""
    target = body.get("target") or {}
    errors: list[FieldError] = []
    if target.get("kind", "") not in ("", "Node"):
        errors.append(not_supported(Path("target.kind"), target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        errors.append(required(Path("target.name")))
    if errors:
        raise StatusError(500, "", aggregate(errors))


def assign(ctx: Context, body: Json, pod: Hub) -> Hub:
    """Assign the pod to the node of the binding. Raise an error if the pod's state forbids it."""
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
    if given.get("labels") and ctx.features.enabled("PodTopologyLabelsAdmission"):
        metadata["labels"] = {**(metadata.get("labels") or {}), **given["labels"]}
    set_condition(status, "PodScheduled", "True", timestamp(ctx.now))
    return pod


async def bind(store: Store, ctx: Context, body: Json, options: WriteOptions) -> Json:
    """Serve POST pods/NAME/binding."""
    attributes = Attributes("CREATE", ctx, ctx.name, body)
    handlers = store.handlers("CREATE", ctx)
    if handlers.configured:  # only handlers use the managers, and pods are bound often
        _NOTE_MANAGER(ctx, body)
    await admit(handlers, attributes)
    metadata = body.get("metadata") or {}
    if ctx.name != metadata.get("name", ""):
        raise bad_request("name in URL does not match name in Binding object")
    _check(body)
    await validate(handlers, attributes)
    return await _bound(store, ctx, body, options, metadata.get("uid") or "")


async def create_binding(store: Store, ctx: Context, body: Json, options: WriteOptions) -> Json:
    """Serve POST bindings, the legacy form: the body names the pod, and its uid is no precondition."""
    name = body["metadata"].get("name", "")
    _check(body)
    await validate_admission(store, ctx, body)
    return await _bound(store.registry.stores["", "pods"], ctx.of_object(ctx.namespace, name), body, options, "")


async def _bound(store: Store, ctx: Context, body: Json, options: WriteOptions, uid: str) -> Json:
    if not ctx.name:
        raise bad_request("Name parameter required.")
    version = (body.get("metadata") or {}).get("resourceVersion") or ""
    await replace_object(
        store, ctx, lambda pod: assign(ctx, body, pod), uid=uid, resource_version=version, dry_run=options.dry_run
    )
    return _success()
