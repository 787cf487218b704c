"""Counts of volumes and claims, with upstream's names."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable

from apiserver.api.objects import Json
from apiserver.runtime.metrics import Counter, Family, Gauge
from controllers.runtime.informer import Informer
from controllers.volumes import attributes_class, class_name

#: Plugin names of volume sources in kube-controller-manager, by field.
_PLUGINS = {
    "hostPath": "kubernetes.io/host-path", "nfs": "kubernetes.io/nfs", "fc": "kubernetes.io/fc",
    "iscsi": "kubernetes.io/iscsi",
}  # fmt: skip
Sizes = dict[tuple[str, ...], float]


class VolumeMetrics:
    """The metrics of the objects in two informers."""

    def __init__(self, volumes: Informer, claims: Informer) -> None:
        prefix, by_class = "pv_collector_", ("storage_class",)
        of_claim = ("namespace", "storage_class", "volume_attributes_class")
        #: Claims without a class that got the default class.
        self.defaulted = Counter("retroactive_storageclass_total", "Assignments of the default class to a claim.")
        self.undefaulted = Counter(
            "retroactive_storageclass_errors_total", "Failed assignments of the default class to a claim."
        )

        def by_phase(informer: Informer, bound: bool) -> Iterable[Json]:
            return [
                each
                for each in tuple(informer.objects.values())
                if ((each.get("status") or {}).get("phase") == "Bound") == bound
            ]

        def volumes_by_class(bound: bool) -> Sizes:
            return dict(Tally((class_name(each),) for each in by_phase(volumes, bound)))

        def claims_by_class(bound: bool) -> Sizes:
            return dict(Tally(_of_claim(each) for each in by_phase(claims, bound)))

        def all_volumes() -> Sizes:
            return dict(Tally(_of_volume(each) for each in tuple(volumes.objects.values())))

        self._gauges = (
            Gauge(f"{prefix}total_pv_count", "Volumes.", ("plugin_name", "volume_mode"), all_volumes),
            Gauge(f"{prefix}bound_pv_count", "Bound volumes.", by_class, lambda: volumes_by_class(True)),
            Gauge(f"{prefix}unbound_pv_count", "Unbound volumes.", by_class, lambda: volumes_by_class(False)),
            Gauge(f"{prefix}bound_pvc_count", "Bound claims.", of_claim, lambda: claims_by_class(True)),
            Gauge(f"{prefix}unbound_pvc_count", "Unbound claims.", of_claim, lambda: claims_by_class(False)),
        )

    @property
    def families(self) -> tuple[Family, ...]:
        return (*self._gauges, self.defaulted, self.undefaulted)


def _of_claim(claim: Json) -> tuple[str, ...]:
    return (claim["metadata"]["namespace"], class_name(claim), attributes_class(claim))


def _of_volume(volume: Json) -> tuple[str, ...]:
    spec = volume["spec"]
    if "csi" in spec:
        plugin = f"kubernetes.io/csi:{spec['csi']['driver']}"
    else:
        plugin = next((name for field, name in _PLUGINS.items() if field in spec), "N/A")
    return (plugin, spec.get("volumeMode", "Filesystem"))
