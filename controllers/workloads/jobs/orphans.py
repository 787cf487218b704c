"""Removes the finalizers of pods whose Job is finished, deleted or has released them."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from apiserver.api.objects import Json
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller
from controllers.runtime.informer import Informer
from controllers.runtime.kinds import JOBS, key_of
from controllers.runtime.workqueue import RetryDelays
from controllers.workloads.common.references import controller_of
from controllers.workloads.jobs.manager import remove_finalizer
from controllers.workloads.jobs.reconcile import CONTROLLER_NAME
from controllers.workloads.jobs.template import has_finalizer
from controllers.workloads.jobs.verdict import is_over

#: Delays after a refused write, such as a pod beyond its quota, of Jobs and of their pods.
RETRY_DELAYS: Final = RetryDelays(timedelta(seconds=1), timedelta(minutes=1))


class Orphans:
    """The queue of such pods. Keys are those of pods."""

    def __init__(self, client: Client, name: str, jobs: Informer, pods: Informer, *, managed_by: bool) -> None:
        """Create the queue. `managed_by` excludes the Jobs of other controllers."""
        self._client, self._jobs, self._pods, self._managed_by = client, jobs, pods, managed_by
        self.controller = Controller(name, self.reconcile, queue="job_orphan_pod", retry_delays=RETRY_DELAYS)
        self.controller.require(jobs)
        self.controller.require(pods)

    def check(self, pod: Json) -> None:
        """Enqueue a pod if it is an orphan."""
        if self._is_orphan(pod):
            self.controller.queue.add(key_of(pod))

    async def reconcile(self, key: str) -> None:
        pod = self._pods.get(key)
        if pod is None or not self._is_orphan(pod):
            return
        try:
            await remove_finalizer(self._client, pod)
        except Exception as error:
            if not is_reason(error, "NotFound"):
                raise

    def _is_orphan(self, pod: Json) -> bool:
        if not has_finalizer(pod):
            return False
        owner = controller_of(pod)
        if owner is None:
            return True
        if (owner["apiVersion"], owner["kind"]) != (JOBS.api_version, JOBS.kind):
            return False
        job = self._jobs.get(f"{pod['metadata']['namespace']}/{owner['name']}")
        if job is None or job["metadata"]["uid"] != owner["uid"]:
            return True
        if self._managed_by and job["spec"].get("managedBy") not in (None, CONTROLLER_NAME):
            return False
        return is_over(job)
