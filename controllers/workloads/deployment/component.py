"""The deployment controller: queue of Deployments, and the choice of an action."""

from __future__ import annotations

from datetime import timedelta

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import DEPLOYMENTS, PODS, REPLICA_SETS
from controllers.workloads.common.component import Workload
from controllers.workloads.common.conditions import condition_of
from controllers.workloads.common.owned import OwnedObjects, selector_of
from controllers.workloads.common.pod_control import in_terminating_namespace
from controllers.workloads.common.references import Claimer, by_controller, controller_index, controller_of
from controllers.workloads.deployment.reconcile import ReconcilePass
from controllers.workloads.deployment.replicasets import rollback_target
from controllers.workloads.deployment.rollouts import is_scaled, recreate, roll, roll_back, scale
from controllers.workloads.deployment.status import PROGRESSING, TIMED_OUT, next_check, progressing

NAME = "deployment-controller"
#: Enables counts of terminating pods in the status.
TERMINATING_GATE = "DeploymentReplicaSetTerminatingReplicas"


def build(client: Client, informers: Informers, options: Options) -> Deployments:
    """Build the component for the manager."""
    return Deployments(client, informers, options)


class Deployments(Workload):
    """The deployment controller. Keys are those of Deployments."""

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        super().__init__(NAME, client, informers, options, DEPLOYMENTS, source=NAME, queue="deployment")
        self._with_terminating = options.features.enabled(TERMINATING_GATE)
        self._replica_sets = self.need(informers.of(REPLICA_SETS))
        self._pods = self.need(informers.of(PODS))
        self._sets = OwnedObjects(self.owners, self._replica_sets, self.queue)
        self._pods_of = controller_index(self._pods)
        self._pods.on(deleted=self._pod_deleted)

    def _pod_deleted(self, pod: Json) -> None:
        """Enqueue a Deployment with strategy Recreate, which waits for its last old pod."""
        reference = controller_of(pod)
        if reference is None or reference["kind"] != REPLICA_SETS.kind:
            return
        replica_set = self._replica_sets.get(f"{pod['metadata']['namespace']}/{reference['name']}")
        if replica_set is not None and replica_set["metadata"]["uid"] == reference["uid"]:
            owner = self._sets.owner_of(replica_set)
            if owner is not None and owner["spec"].get("strategy", {}).get("type") == "Recreate":
                self.queue(f"{owner['metadata']['namespace']}/{owner['metadata']['name']}")

    async def sync(self, key: str, owner: Json) -> timedelta | None:
        selector = selector_of(owner)
        if selector.empty:
            self.recorder.record(
                owner, "Warning", "SelectingAll",
                "This deployment is selecting all pods. A non-empty selector is required.",
            )  # fmt: skip
            return None
        claimer = Claimer(self.client, owner, DEPLOYMENTS, selector, REPLICA_SETS)
        sets = await claimer.claim(self._sets.of(owner))
        this = ReconcilePass(self, owner, sets, with_terminating=self._with_terminating)
        try:
            return await self._run(this)
        except StatusError as error:
            if in_terminating_namespace(error):
                return None
            raise

    async def _run(self, this: ReconcilePass) -> timedelta | None:
        if this.deployment["metadata"].get("deletionTimestamp"):
            await this.ensure_new(create=False)
            await this.write_counts()
            return None
        await self._update_paused(this)
        spec = this.deployment["spec"]
        rolling_back = rollback_target(this.deployment) is not None
        if not spec.get("paused") and rolling_back:
            await roll_back(this)
            return None
        await this.ensure_new(create=False)
        if spec.get("paused") or is_scaled(this):
            await scale(this)
            if spec.get("paused") and not rolling_back:
                await this.clean_up()
            await this.write_counts()
            return None
        if spec.get("strategy", {}).get("type") == "Recreate":
            await recreate(this, lambda each: by_controller(self._pods_of, each, orphans=False))
        else:
            await roll(this)
        return next_check(this.deployment, await this.write_rollout())

    @staticmethod
    async def _update_paused(this: ReconcilePass) -> None:
        """Update the condition Progressing of a paused or resumed Deployment, which has no deadline meanwhile."""
        current = condition_of(this.deployment.get("status") or {}, PROGRESSING)
        reason = current.get("reason") if current is not None else None
        paused = bool(this.deployment["spec"].get("paused"))
        if this.deployment["spec"].get("progressDeadlineSeconds") is None or reason == TIMED_OUT:
            return
        if paused and reason != "DeploymentPaused":
            await this.write_progress(progressing("Unknown", "DeploymentPaused", "Deployment is paused"))
        elif not paused and reason == "DeploymentPaused":
            await this.write_progress(progressing("Unknown", "DeploymentResumed", "Deployment is resumed"))
