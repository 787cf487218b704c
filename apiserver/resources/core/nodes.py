"""Define Nodes. A create may set the status, as kubelets do. Rules: pkg/registry/core/node, ValidateNode."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Final

from apiserver.api.errors.field_errors import (
    FieldError,
    Path,
    duplicate,
    go_quote,
    internal,
    invalid,
)
from apiserver.api.errors.status import StatusError, not_found
from apiserver.api.objects import Json
from apiserver.api.schema.dropping import drop_disabled
from apiserver.api.types.core.nodes import Node, NodeSpec
from apiserver.api.types.core.scheduling import Taint
from apiserver.api.validation.changes import changes
from apiserver.api.validation.items import each_unique
from apiserver.api.values.names import NamePattern, label_value
from apiserver.api.values.networks import cidr_family, legacy_cidr
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.addresses import subnet_warnings
from apiserver.resources.common.columns import AGE, NAME
from apiserver.resources.common.connect_options import PROXY, proxy_options, split_target
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.resource_names import quantity_value

if TYPE_CHECKING:
    from apiserver.registry.store.store import Store
    from apiserver.request.messages import Request, Response


_SPEC: Final = Path("spec")
_STATUS: Final = Path("status")
_METADATA: Final = Path("metadata")
#: Immutable fields of the spec that are reported before taints, and after.
_ONCE: Final = changes(NodeSpec, "podCIDRs", "providerID", by_rules=("externalID",))
_NEVER: Final = changes(NodeSpec, "externalID", by_rules=("podCIDRs", "providerID"))
_FEATURE_LIMIT: Final = 253
_DECLARED_FEATURE: Final = NamePattern("", r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*")
_FEATURE_SHAPE: Final = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or"
    " MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
)


def default(obj: Json, now: datetime) -> None:
    """Default allocatable to the capacity."""
    status = obj.get("status") or {}
    if status.get("capacity") and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])


def to_hub(obj: Json) -> Json:
    """Copy podCIDR and the first of podCIDRs to each other."""
    spec = obj.get("spec") or {}
    first, ranges = spec.get("podCIDR"), spec.get("podCIDRs")
    if ranges and (not first or first == ranges[0]):
        spec["podCIDR"] = ranges[0]
    elif first:
        spec["podCIDRs"] = [first]
    return obj


RULES.set(Taint, by_rules=("key", "effect"))


def _taints(taints: list[Json]) -> list[FieldError]:
    """Validate the taints. The path is metadata.taints, as upstream's is."""
    errors: list[FieldError] = []
    for path, taint, is_repeated in each_unique(_METADATA / "taints", taints, "key", "effect"):
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        here = RULES.of(Taint).at(path, taint)
        errors += here.field("key")
        if texts := label_value(value):
            errors.append(invalid(path / "value", value, ";".join(texts)))
        errors += here.field("effect")
        if is_repeated:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            twice = duplicate(path, shown)
            errors.append(
                FieldError(twice.reason, twice.field, f"{twice.body}: taints must be unique by key and effect pair")
            )
    return errors


def _amounts(status: Json) -> list[FieldError]:
    return [
        error
        for field in ("capacity", "allocatable")
        for name, amount in (status.get(field) or {}).items()
        for error in quantity_value(_STATUS / field / name, name, amount)
    ]


def _declared_features(features: list[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    path = _STATUS / "declaredFeatures"
    for index, name in enumerate(features):
        if len(name) > _FEATURE_LIMIT:
            errors.append(
                invalid(
                    path[index],
                    name,
                    f"invalid feature name {go_quote(name)}: must be no more than {_FEATURE_LIMIT} characters",
                )
            )
        elif not _DECLARED_FEATURE.matches(name):
            errors.append(invalid(path[index], name, f"invalid feature name {go_quote(name)}: {_FEATURE_SHAPE}"))
        if index and features[index - 1] == name:
            errors.append(duplicate(path[index], name))
        elif index and features[index - 1] > name:
            errors.append(invalid(path[index], name, "list must be sorted alphabetically"))
    return errors


def _pod_cidrs(cidrs: list[str], strict: bool) -> list[FieldError]:
    path = _SPEC / "podCIDRs"
    errors = [error for index, cidr in enumerate(cidrs) for error in legacy_cidr(path[index], cidr, strict)]
    wrong = next(((index, cidr) for index, cidr in enumerate(cidrs) if cidr_family(cidr) == 0), None)
    if len(cidrs) > 1 and wrong is not None:
        unparsed = f"invalid CIDR[{wrong[0]}]: <nil> (invalid CIDR address: {wrong[1]})"
        detail = f"invalid PodCIDRs. failed to check with dual stack with error:{unparsed}"
        errors.append(internal(path, detail))
    if len(cidrs) > 1 and (len(cidrs) > 2 or {cidr_family(cidr) for cidr in cidrs} != {4, 6}):
        errors.append(invalid(path, cidrs, "may specify no more than one CIDR for each IP family"))
    return errors


class NodeStrategy(Strategy):
    reset_fields = ("status",)
    status_reset_fields = ("spec",)

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj.setdefault("spec", {}).pop("configSource", None)
        obj.get("status", {}).pop("config", None)
        drop_disabled(ctx, obj, None)

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["status"] = old.get("status", {})
        if "configSource" not in old.get("spec", {}):
            obj["spec"].pop("configSource", None)
        drop_disabled(ctx, obj, old)

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        """Restrict a status update. Fields of disabled gates stay, as upstream leaves them."""
        obj["spec"] = old["spec"]
        if "config" not in old.get("status", {}):
            obj.get("status", {}).pop("config", None)

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        spec, status = obj["spec"], obj.get("status") or {}
        errors = _taints(spec["taints"]) if spec.get("taints") else []
        errors += _amounts(status)
        errors += _declared_features(status.get("declaredFeatures") or [])
        return errors + _pod_cidrs(spec.get("podCIDRs") or [], ctx.features.enabled("StrictIPCIDRValidation"))

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return self.validate(ctx, obj) + self.validate_status_update(ctx, obj, old)

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        spec, status, before = obj["spec"], obj.get("status") or {}, old["spec"]
        errors = _amounts(status) + _declared_features(status.get("declaredFeatures") or [])
        addresses = status.get("addresses")
        errors += [
            duplicate(at, {"Type": address["type"], "Address": address["address"]})
            for at, address, is_repeated in each_unique(_STATUS / "addresses", addresses, "type", "address")
            if is_repeated
        ]
        errors += _ONCE.errors(_SPEC, spec, before)
        errors += _taints(spec["taints"]) if spec.get("taints") else []
        return errors + _NEVER.errors(_SPEC, spec, before)

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        warnings = ["spec.configSource: the feature is removed"] if obj["spec"].get("configSource") else []
        if obj["spec"].get("externalID"):
            warnings.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
        for index, cidr in enumerate(obj["spec"].get("podCIDRs") or ()):
            warnings += subnet_warnings((_SPEC / "podCIDRs")[index], cidr)
        return warnings

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        return self.warnings_on_create(ctx, obj)


# --- columns
# ----------------------------------------------------------------------------------------------------------------------


def _state(obj: Json) -> str:
    ready = next((c for c in reversed(obj.get("status", {}).get("conditions") or ()) if c.get("type") == "Ready"), None)
    word = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if obj["spec"].get("unschedulable") else word


_ROLE_PREFIX: Final = "node-role.kubernetes.io/"


def _roles(obj: Json) -> str:
    labels = obj["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)} | {
        labels.get("kubernetes.io/role", "")
    }
    return ",".join(sorted(roles - {""})) or "<none>"


def _info(field: str) -> Callable[[Json], str]:
    return lambda obj: (obj.get("status", {}).get("nodeInfo") or {}).get(field) or "<unknown>"


def _version(obj: Json) -> str:
    version: str = (obj.get("status", {}).get("nodeInfo") or {}).get("kubeletVersion", "")
    return version


def _kernel(obj: Json) -> str:
    architecture = (obj.get("status", {}).get("nodeInfo") or {}).get("architecture")
    kernel = _info("kernelVersion")(obj)
    return f"{kernel} ({architecture})" if architecture else kernel


def _address(kind: str) -> Callable[[Json], str]:
    return lambda obj: next(
        (a.get("address", "") for a in obj.get("status", {}).get("addresses") or () if a.get("type") == kind), "<none>"
    )


_COLUMNS: Final = (
    NAME,
    Column(name="Status", cell=_state, description="Whether the node is ready and schedulable."),
    Column(name="Roles", cell=_roles, description="Roles by the node's labels."),
    AGE,
    Column(name="Version", cell=_version, description="Version of the kubelet."),
    Column(name="Internal-IP", cell=_address("InternalIP"), priority=1, description="Address inside the cluster."),
    Column(name="External-IP", cell=_address("ExternalIP"), priority=1, description="Address outside the cluster."),
    Column(name="OS-Image", cell=_info("osImage"), priority=1, description="Operating system."),
    Column(name="Kernel-Version", cell=_kernel, priority=1, description="Kernel and architecture."),
    Column(
        name="Container-Runtime", cell=_info("containerRuntimeVersion"), priority=1, description="Container runtime."
    ),
)


async def _proxy(store: Store, ctx: Context, request: Request) -> Response:
    """Reject a proxy request for a node, because no kubelet listens on emulated nodes."""
    _, name, _ = split_target(ctx.name, "node")
    if ctx.lookup("", "nodes", "", name) is None:
        raise not_found("nodes", "", name)
    raise StatusError(501, "NotImplemented", f"kubedra emulates nodes: no kubelet listens on node {name}")


NODES = Resource(
    group="",
    kind="Node",
    plural="nodes",
    singular="node",
    namespaced=False,
    short_names=("no",),
    versions=(Version(name="v1", schema=Node, default=default, to_hub=to_hub),),
    strategy=NodeStrategy(),
    storage_prefix="minions",
    columns=_COLUMNS,
    subresources=(
        Subresource(name="proxy", verbs=PROXY, kind="NodeProxyOptions", connect=_proxy, connect_options=proxy_options),
        Subresource(name="status"),
    ),
    field_labels={"spec.unschedulable": lambda obj: "true" if obj["spec"].get("unschedulable") else "false"},
    field_error_style="plain",
)
