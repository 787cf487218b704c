"""Define Pods: defaults, gates, validation, status, binding. The other modules of the package contain the rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.api.objects import Json
from apiserver.api.types.core.pods import Binding, Pod
from apiserver.api.types.policy import Eviction
from apiserver.registry.definition.resource import Resource, Subresource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.connect_options import (
    PROXY,
    attach_options,
    exec_options,
    port_forward_options,
    proxy_options,
)
from apiserver.resources.pods.binding import bind, create_binding
from apiserver.resources.pods.columns import COLUMNS, row_conditions
from apiserver.resources.pods.connections import attach, execute, log, port_forward, proxy
from apiserver.resources.pods.defaults import default, to_hub
from apiserver.resources.pods.eviction import evict
from apiserver.resources.pods.strategy import PodStrategy

__all__ = ["BINDINGS", "PODS"]


def _spec(field: str) -> Callable[[Json], str]:
    return lambda obj: obj["spec"].get(field) or ""


def _status(field: str) -> Callable[[Json], str]:
    return lambda obj: (obj.get("status") or {}).get(field) or ""


def _pod_ip(obj: Json) -> str:
    addresses = (obj.get("status") or {}).get("podIPs") or ()
    ip: str = addresses[0].get("ip", "") if addresses else ""
    return ip


_CONNECT: Final = ("create", "get")

PODS = Resource(
    group="",
    kind="Pod",
    plural="pods",
    singular="pod",
    namespaced=True,
    short_names=("po",),
    categories=("all",),
    versions=(Version(name="v1", schema=Pod, default=default, to_hub=to_hub),),
    strategy=PodStrategy(),
    storage_prefix="pods",
    columns=COLUMNS,
    row_conditions=row_conditions,
    subresources=(
        Subresource(
            name="attach", verbs=_CONNECT, kind="PodAttachOptions", connect=attach, connect_options=attach_options
        ),
        Subresource(name="binding", verbs=("create",), kind="Binding", schema=Binding, create=bind),
        Subresource(name="ephemeralcontainers", tables=False),
        Subresource(
            name="eviction",
            verbs=("create",),
            kind="Eviction",
            group="policy",
            version="v1",
            schema=Eviction,
            accepts=("policy/v1beta1",),
            create=evict,
        ),
        Subresource(name="exec", verbs=_CONNECT, kind="PodExecOptions", connect=execute, connect_options=exec_options),
        Subresource(name="log", verbs=("get",), connect=log),
        Subresource(
            name="portforward",
            verbs=_CONNECT,
            kind="PodPortForwardOptions",
            connect=port_forward,
            connect_options=port_forward_options,
        ),
        Subresource(name="proxy", verbs=PROXY, kind="PodProxyOptions", connect=proxy, connect_options=proxy_options),
        Subresource(name="resize", tables=False),
        Subresource(name="status"),
    ),
    field_labels={
        "spec.nodeName": _spec("nodeName"),
        "spec.host": _spec("nodeName"),
        "spec.restartPolicy": _spec("restartPolicy"),
        "spec.schedulerName": _spec("schedulerName"),
        "spec.serviceAccountName": _spec("serviceAccountName"),
        "spec.hostNetwork": lambda obj: "true" if obj["spec"].get("hostNetwork") else "false",
        "status.phase": _status("phase"),
        "status.podIP": _pod_ip,
        "status.podIPs": lambda obj: "",
        "status.nominatedNodeName": _status("nominatedNodeName"),
    },
    field_error_style="plain",
    delete_returns_object=True,
)

#: The legacy binding resource. The body names the pod. It stores nothing of its own and has the prefix of pods.
BINDINGS = Resource(
    group="",
    kind="Binding",
    plural="bindings",
    singular="binding",
    namespaced=True,
    versions=(Version(name="v1", schema=Binding),),
    strategy=Strategy(),
    storage_prefix="pods",
    columns=(),
    verbs=("create",),
    create=create_binding,
)
