"""The running time of emulated containers that belong to Jobs, or to pods that are hooks of a Helm chart.

Without a limit such a container runs forever, and so does its Job. The first of these that is set applies: the
annotation `kubedra.dev/exit-after` of the pod, `kubedra.dev/jobs-exit-after` of its namespace and of its node, and
`Options.jobs_exit_after`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from apiserver.api.objects import Json
from controllers.kubelet.emulation.annotations import HELM_HOOK, JOBS_EXIT_AFTER, annotation, parse_running_time
from controllers.options.options import Options
from controllers.resourceclaims.pods import controller_of
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import NAMESPACES


class JobDurations:
    """The running times set for the pods of Jobs.

    The kubelet of one node may not read namespaces, so their annotations do not apply there.
    """

    def __init__(self, informers: Informers, options: Options, changed: Callable[[str], None]) -> None:
        """Create the durations. `changed` is called with the name of a namespace whose annotation changed."""
        self._default = options.jobs_exit_after
        self._namespaces = None if options.node else informers.of(NAMESPACES)
        if self._namespaces is None:
            return

        def updated(old: Json, new: Json) -> None:
            if annotation(old, JOBS_EXIT_AFTER) != annotation(new, JOBS_EXIT_AFTER):
                changed(new["metadata"]["name"])

        def added(new: Json) -> None:
            if annotation(new, JOBS_EXIT_AFTER) is not None:
                changed(new["metadata"]["name"])

        self._namespaces.on(added, updated)

    def of(self, pod: Json, node: Json | None) -> timedelta | None:
        """Return the running time of the pod's containers; None for no limit and for pods that run on."""
        if not (_belongs_to_job(pod) or _is_hook(pod)):
            return None
        found = self._namespaces.get(pod["metadata"]["namespace"]) if self._namespaces is not None else None
        for obj in (found, node):
            if obj is not None and (value := annotation(obj, JOBS_EXIT_AFTER)) is not None:
                return parse_running_time(value, self._default)
        return self._default


def _belongs_to_job(pod: Json) -> bool:
    owner = controller_of(pod)
    return owner is not None and owner["kind"] == "Job" and owner["apiVersion"].startswith("batch/")


def _is_hook(pod: Json) -> bool:
    """Return whether Helm waits until this pod ends, as for the tests of a chart."""
    return controller_of(pod) is None and bool(annotation(pod, HELM_HOOK))
