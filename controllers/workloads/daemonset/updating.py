"""Rolling updates of DaemonSets: nodes have no pod (replacing) or two pods (surging) for a while. Pure."""

from __future__ import annotations

from apiserver.api.objects import Json
from controllers.workloads.common.pod_states import is_deleted
from controllers.workloads.daemonset.reconcile import PodChanges, ReconcilePass


def update(this: ReconcilePass) -> PodChanges:
    """Plan the changes for a new template that are possible now."""
    surge, unavailable = this.limits()
    return _plan_surge(this, surge) if surge else _plan_replacements(this, unavailable)


def _nodes(this: ReconcilePass) -> dict[str, list[Json]]:
    """Return the pods by node, including nodes that lack their pod."""
    return this.pods | {node: [] for node, verdict in this.verdicts.items() if verdict.run and node not in this.pods}


def _new_and_old(this: ReconcilePass, pods: list[Json]) -> tuple[Json | None, Json | None] | None:
    """Return the new and the old pod; None with duplicates, which must be deleted first."""
    alive = [pod for pod in pods if not is_deleted(pod)]
    new = [pod for pod in alive if this.is_updated(pod)]
    old = [pod for pod in alive if not this.is_updated(pod)]
    if len(new) > 1 or len(old) > 1:
        return None
    return new[0] if new else None, old[0] if old else None


def _plan_replacements(this: ReconcilePass, most: int) -> PodChanges:
    """Plan deletions: unavailable old pods always, others within the limit of unavailable nodes."""
    missing, useless, useful = 0, [], []
    for pods in _nodes(this).values():
        new, old = _new_and_old(this, pods) or (None, None)
        if (new is None) == (old is None):
            missing += 1
        elif new is not None:
            missing += not this.is_available(new)
        elif old is not None and not this.is_available(old):
            useless.append(old)
            missing += 1
        elif old is not None:
            useful.append(old)
    return PodChanges(pods=useless + useful[: max(0, most - missing)])


def _plan_surge(this: ReconcilePass, most: int) -> PodChanges:
    """Plan new pods beside old ones within the surge, and deletions of old ones whose new pod is available."""
    work, twice, available = PodChanges(), 0, 0
    candidates: list[str] = []
    misplaced: list[Json] = []
    for node, pods in _nodes(this).items():
        found = _new_and_old(this, pods)
        if found is None:
            twice += 1
            continue
        new, old = found
        serving = old or new
        available += serving is not None and this.is_available(serving)
        if old is None:
            continue
        if new is not None:
            if this.is_available(new):
                work.pods.append(old)
            else:
                twice += 1
            continue
        verdict = this.verdicts.get(node)
        runs, useful = verdict is not None and verdict.run, this.is_available(old)
        if runs:
            (candidates if useful else work.nodes).append(node)
        else:
            (misplaced if useful else work.pods).append(old)
    work.pods += misplaced[: max(0, available - this.desired)]
    work.nodes += candidates[: max(0, most - twice)]
    return work
