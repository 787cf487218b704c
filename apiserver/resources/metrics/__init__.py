"""metrics.k8s.io, computed per request from annotations (`usage`) and never stored.

A cluster has this group only with metrics-server, so it is served only if `--runtime-config` names it.
Facts: k8s.io/metrics and metrics-server (pkg/api): kinds, verbs, labels of the objects, columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.objects import Json
from apiserver.api.types.metrics import NodeMetrics, PodMetrics
from apiserver.api.values.times import timestamp
from apiserver.registry.definition.resource import Column, Resource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import NAME
from apiserver.resources.metrics.usage import RESOURCES, container_usage, node_usage

if TYPE_CHECKING:
    from apiserver.api.schema.language import Struct
    from apiserver.registry.definition.context import Context
    from apiserver.registry.store.store import Store

__all__ = ["METRICS"]

GROUP: Final = "metrics.k8s.io"
_WINDOW: Final = "15s"


async def _nodes(store: Store, ctx: Context) -> list[Json]:
    pods: dict[str, list[Any]] = {}
    for pod in ctx.all_of("", "pods"):
        if _is_running(pod):
            pods.setdefault(pod["spec"].get("nodeName", ""), []).append(pod)
    nodes = ctx.all_of("", "nodes")
    return [
        {
            **_head(node, ctx),
            "usage": {name: str(amount) for name, amount in node_usage(node, pods.get(_name(node), ())).items()},
        }
        for node in sorted(nodes, key=_name)
    ]


async def _pods(store: Store, ctx: Context) -> list[Json]:
    found = []
    for pod in sorted(ctx.all_of("", "pods"), key=lambda pod: (pod["metadata"]["namespace"], _name(pod))):
        used = container_usage(pod) if _is_running(pod) else {}
        if used:
            containers = [
                {"name": name, "usage": {resource: str(amount) for resource, amount in amounts.items()}}
                for name, amounts in used.items()
            ]
            found.append({**_head(pod, ctx), "containers": containers})
    return found


def _head(obj: Mapping[str, Any], ctx: Context) -> Json:
    now = timestamp(ctx.now)
    kept = {key: obj["metadata"][key] for key in ("name", "namespace", "labels") if obj["metadata"].get(key)}
    return {"metadata": {**kept, "creationTimestamp": now}, "timestamp": now, "window": _WINDOW}


def _name(obj: Mapping[str, Any]) -> str:
    name: str = obj["metadata"]["name"]
    return name


def _is_running(pod: Mapping[str, Any]) -> bool:
    return bool((pod.get("status") or {}).get("phase") == "Running")


def _cell(resource: str) -> Any:
    def cell(obj: Json) -> str:
        if "usage" in obj:
            return str(obj["usage"].get(resource, ""))
        from apiserver.api.values.quantity import Quantity

        total = Quantity.of(0)
        for container in obj.get("containers") or ():
            total = total.add(Quantity.parse(str(container["usage"].get(resource, "0"))))
        return str(total)

    return cell


def _resource(schema: Struct, plural: str, compute: Any, *, namespaced: bool) -> Resource:
    assert schema.gvk is not None
    group, version, kind = schema.gvk
    return Resource(
        group=group,
        kind=kind,
        plural=plural,
        singular="",
        namespaced=namespaced,
        versions=(Version(name=version, schema=schema),),
        strategy=Strategy(),
        storage_prefix=f"{group}/{plural}",
        verbs=("get", "list"),
        compute_objects=compute,
        columns=(
            NAME,
            *(Column(name=name, cell=_cell(name), description=f"Used amount of {name}.") for name in RESOURCES),
            Column(name="Window", cell=lambda obj: obj.get("window", ""), description="Length of the interval."),
        ),
    )


METRICS: Final = (
    _resource(NodeMetrics, "nodes", _nodes, namespaced=False),
    _resource(PodMetrics, "pods", _pods, namespaced=True),
)
