"""Generated lives of workloads: what is made first, and the steps after it. The same seed gives the same life."""

from __future__ import annotations

import random
from dataclasses import dataclass

from apiserver.api.objects import Json
from controllers.runtime.kinds import (
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Kind,
)

LABELS = {"app": "x"}
_CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


@dataclass(frozen=True, slots=True)
class Life:
    """`steps` are merge patches of the object; None deletes one of its pods."""

    kind: Kind
    first: Json
    steps: tuple[Json | None, ...]


def life(seed: int) -> Life:
    """Return a workload of some kind and the steps of its life."""
    choice = random.Random(seed)
    kind = choice.choice((DEPLOYMENTS, DEPLOYMENTS, DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, REPLICA_SETS,
                          REPLICATION_CONTROLLERS))  # fmt: skip
    spec: Json = {"selector": {"matchLabels": LABELS}, "template": _template(choice)}
    if kind == REPLICATION_CONTROLLERS:
        spec["selector"] = LABELS
    if kind != DAEMON_SETS:
        spec["replicas"] = choice.randint(0, 6)
    if choice.random() < 0.2:
        spec["minReadySeconds"] = choice.randint(1, 2)
    spec |= {DEPLOYMENTS: _deployment, STATEFUL_SETS: _stateful_set, DAEMON_SETS: _daemon_set}.get(kind, _plain)(choice)
    first = {"metadata": {"name": "x", "annotations": {"note": str(seed)}}, "spec": spec}
    return Life(kind, first, tuple(_step(choice, kind) for _ in range(4)))


def _template(choice: random.Random) -> Json:
    container: Json = {"name": "c", "image": "i:0"}
    if choice.random() < 0.5:
        container["resources"] = {"requests": {"cpu": choice.choice(("10m", "0.01")), "memory": "1Mi"}}
    if choice.random() < 0.3:
        container |= {"env": [{"name": "A", "value": "<&>"}], "args": ["--x", 'a "b"']}
    return {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}}


def _amount(choice: random.Random) -> int | str:
    return choice.choice((0, 1, 2, "25%", "50%", "100%"))


def _deployment(choice: random.Random) -> Json:
    spec: Json = {"revisionHistoryLimit": choice.choice((0, 1, 10))}
    if choice.random() < 0.2:
        return {**spec, "strategy": {"type": "Recreate"}}
    surge, unavailable = _amount(choice), _amount(choice)
    if surge == 0 and unavailable == 0:
        surge = 1
    return {**spec, "strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}


def _stateful_set(choice: random.Random) -> Json:
    spec: Json = {"podManagementPolicy": choice.choice(("OrderedReady", "Parallel")), "serviceName": "x"}
    if choice.random() < 0.3:
        spec["ordinals"] = {"start": choice.randint(0, 3)}
    if choice.random() < 0.4:
        policy = {name: choice.choice(("Retain", "Delete")) for name in ("whenDeleted", "whenScaled")}
        spec |= {"volumeClaimTemplates": [_CLAIM], "persistentVolumeClaimRetentionPolicy": policy}
    if choice.random() < 0.3:
        spec["updateStrategy"] = {"type": "OnDelete"}
    return spec


def _daemon_set(choice: random.Random) -> Json:
    if choice.random() < 0.2:
        return {"updateStrategy": {"type": "OnDelete"}}
    if choice.random() < 0.4:
        return {"updateStrategy": {"rollingUpdate": {"maxSurge": choice.randint(1, 2), "maxUnavailable": 0}}}
    return {"updateStrategy": {"rollingUpdate": {"maxUnavailable": choice.randint(1, 2)}}}


def _plain(choice: random.Random) -> Json:
    return {}


def _step(choice: random.Random, kind: Kind) -> Json | None:
    steps: list[Json | None] = [
        None,
        {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": f"i:{choice.randint(0, 2)}"}]}}}},
        {"spec": {"template": {"spec": {"nodeSelector": {"no": "where"}}}}},
        {"spec": {"template": {"spec": {"nodeSelector": None}}}},
        {"metadata": {"annotations": {"note": f"step {choice.randint(0, 9)}"}}},
    ]
    if kind != DAEMON_SETS:
        steps += [{"spec": {"replicas": choice.randint(0, 8)}} for _ in range(2)]
    if kind == DEPLOYMENTS:
        steps += [{"spec": {"paused": paused}} for paused in (True, False)]
        steps.append({"metadata": {"annotations": {"deprecated.deployment.rollback.to": str(choice.randint(0, 3))}}})
    if kind == STATEFUL_SETS:
        steps.append({"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}})
    return choice.choice(steps)
