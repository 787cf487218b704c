"""The checks of /healthz, /livez and /readyz, by upstream's names.

Most of these are startup tasks that kube-apiserver finishes after it has begun to listen. Here all of them are
finished, or not needed, before the first response.

Source: the answers of kube-apiserver 1.36.2, in their order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.http.documents.health import Check

__all__ = ["checks_of"]

_BOOTSTRAP_ROLES: Final = "poststarthook/rbac/bootstrap-roles"

#: In upstream's order.
_AFTER_START: Final = (
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    _BOOTSTRAP_ROLES,
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-wait-for-first-sync",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
)


async def _pass_check() -> str:
    return ""


def checks_of(
    storage: Check, announced: Callable[[], bool], stopping: Callable[[], bool], *, roles: bool
) -> dict[str, Check]:
    """Return the checks of a server, in upstream's order.

    `storage` returns the problem of its store, `announced` whether the server has been announced; `roles`: the server
    has those of RBAC.
    """

    async def kubeconfig() -> str:
        return "" if announced() else "the kubeconfig is not written yet"

    async def shutdown() -> str:
        return "process is shutting down" if stopping() else ""

    checks = {
        "ping": _pass_check,
        "log": _pass_check,
        "loopback-serving-certificate": _pass_check,  # clients in this process need none
        "etcd": storage,
        "etcd-readiness": storage,
        "informer-sync": _pass_check,
        **dict.fromkeys(_AFTER_START, _pass_check),
        "kubeconfig": kubeconfig,
        "shutdown": shutdown,
    }
    if not roles:
        del checks[_BOOTSTRAP_ROLES]
    return checks
