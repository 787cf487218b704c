"""Lives of other objects have the same results with kubedra's controllers and with a real kube-controller-manager.

Objects and events are compared after each step. Runs where a kube-controller-manager of 1.36 is on PATH.
KUBEDRA_SITUATIONS is the number of lives per topic, KUBEDRA_TOPICS the topics, KUBEDRA_SEED the first seed.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime.clock import now
from apiserver.tls.self_signed import load_or_create_authority
from controllers.runtime.client import Client
from controllers.runtime.kinds import CORE_EVENTS, ENDPOINT_SLICES, ENDPOINTS, NAMESPACES, NODES, PODS, Kind
from controllers.runtime.times import go_time
from tests.controllers.beside import KUBE_CONTROLLER_MANAGER, both, comparable, comparable_part, differences
from tests.controllers.clusterlives import TOPICS, ClusterLife, cluster_life
from tests.controllers.lifewriter import CUSTOM_RESOURCES, LABELS, POD_METRICS, Act
from tests.support.patience import Deadline

COMPARED = [
    f"{name}-controller"
    for name in (
        "disruption", "horizontal-pod-autoscaler", "endpoints", "endpointslice", "endpointslice-mirroring",
        "persistentvolume-binder", "persistentvolumeclaim-protection", "persistentvolume-protection",
        "node-lifecycle", "taint-eviction", "ttl", "pod-garbage-collector", "namespace", "garbage-collector",
        "certificatesigningrequest-approving", "certificatesigningrequest-signing", "service-cidr", "cronjob", "job",
        "replicaset", "deployment", "resourcequota",
    )
]  # fmt: skip
OTHERS = ["scheduler", "node-agent", "serviceaccount-controller"]
FLAGS = ["--node-monitor-grace-period=15s", "--horizontal-pod-autoscaler-sync-period=2s",
         "--horizontal-pod-autoscaler-downscale-stabilization=1s"]  # fmt: skip
ONLY_THEIRS = ["--node-monitor-period=1s", "--pvclaimbinder-sync-period=2s"]
COUNT = int(os.environ.get("KUBEDRA_SITUATIONS", "2"))
SEED = int(os.environ.get("KUBEDRA_SEED", "0"))
CHOSEN = os.environ.get("KUBEDRA_TOPICS", ",".join(TOPICS)).split(",")
_VARIES = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|\d{4}-\d\d-\d\dT[\d:.]+Z|\b\d+(\.\d+)?(ms|s)\b|\(x\d+\)")

#: Seconds that each step has at least, and those that one of them may be behind the other.
_LEAST, _SLOWER = 3, 20
_SCALERS = re.compile(r"(?<=HPAs: )\[([^]]*)\]")

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(KUBE_CONTROLLER_MANAGER is None, reason="no kube-controller-manager on PATH"),
    pytest.mark.timeout(900),
]


class Player:
    """Plays lives on one server."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._uids: dict[str, str] = {}

    async def play(self, life: ClusterLife, acts: Iterable[Act]) -> list[str]:
        """Send the requests of a step, and return the server's errors."""
        said = []
        for act in acts:
            try:
                await self._do(act)
            except StatusError as error:
                said.append(f"{act.verb} {act.kind.kind}: {_VARIES.sub('*', str(error))}")
        return said

    async def _do(self, act: Act) -> None:
        match act.verb:
            case "create":
                metadata = {**act.body["metadata"], **({"namespace": act.namespace} if act.namespace else {})}
                if refs := metadata.get("ownerReferences"):
                    uids = (self._uids.get(f"{act.namespace} {ref['uid']}", ref["uid"]) for ref in refs)
                    metadata["ownerReferences"] = [{**ref, "uid": uid} for ref, uid in zip(refs, uids, strict=True)]
                made = await self.client.create(act.kind, {**act.body, "metadata": metadata})
                self._uids[f"{act.namespace} uid of {act.name}"] = made["metadata"]["uid"]
            case "patch":
                await self.client.patch(act.kind, act.name, act.body, act.namespace, type="merge")
            case "status" | "approval":
                await self.client.patch(
                    act.kind, act.name, act.body, act.namespace, type="strategic", subresource=act.verb
                )
            case "delete":
                policy = act.body.get("propagationPolicy", "")
                await self.client.delete(act.kind, act.name, act.namespace, propagation=policy)

    async def use(self, life: ClusterLife) -> None:
        """Let the pods of an autoscaler use resources."""
        for pod in (await self.client.list(PODS, life.namespace))["items"]:
            name, number = pod["metadata"]["name"], int(life.namespace[1:])
            usage = {"cpu": f"{30 + number % 4 * 25}m", "memory": "9Mi"}
            body = {
                "metadata": {"name": name, "namespace": life.namespace, "labels": LABELS}, "window": "1s",
                "timestamp": go_time(now()), "containers": [{"name": "c", "usage": usage}],
            }  # fmt: skip
            with suppress(StatusError):
                await self.client.create(POD_METRICS, body)

    async def state(self, life: ClusterLife) -> dict[str, list[str]]:
        """Return the objects of a life, and its events with their messages."""
        number = life.namespace[1:]
        found: dict[str, list[str]] = {}
        for kind in life.kinds:
            items = (await self.client.list(kind, life.namespace if kind.namespaced else ""))["items"]
            items = [item for item in items if kind.namespaced or _is_of(item, number)]
            found[kind.kind] = sorted(_text(kind, item) for item in items)
        events = (await self.client.list(CORE_EVENTS))["items"]
        own = [each for each in events if each["metadata"]["namespace"] == life.namespace or _is_about(each, number)]
        found["events"] = sorted(
            {
                _told(each)
                for each in own
                # Whether a CronJob is looked at before it is known that its Job was deleted is chance.
                if _source(each) not in _NOT_COMPARED and each["reason"] != "MissingJob"
            }
        )
        return found


_NOT_COMPARED = ("kubelet", "default-scheduler", "serviceaccount-controller")


def _is_of(item: Json, number: str) -> bool:
    name = item["metadata"]["name"]
    return bool(name.endswith(f"-l{number}") or name == f"n{number}" or name.startswith(f"10.77.{int(number) % 250}."))


def _is_about(event: Json, number: str) -> bool:
    of = event["involvedObject"]
    return event["metadata"]["namespace"] == "default" and str(of.get("name", "")).endswith(f"-l{number}")


def _source(event: Json) -> str:
    return str(event.get("reportingComponent") or event["source"].get("component"))


def _told(event: Json) -> str:
    of = event["involvedObject"]
    message = comparable(_varying(event["message"]))
    return f"{_source(event)} {of['kind']} {event['type']} {event['reason']}: {message}"


def _text(kind: Kind, item: Json) -> str:
    item = comparable_part(kind, item) if kind in (PODS, ENDPOINT_SLICES) else item
    # All that stands in them is when something changed.
    if kind == ENDPOINTS:
        item = {**item, "metadata": {**item["metadata"], "annotations": None}}
    status = item.get("status") or {}
    if "certificate" in status:
        item = {**item, "status": {**status, "certificate": "some"}}
    if "deletionTimestamp" in item.get("metadata", {}):
        item = {**item, "deleting": True}
    return _varying(json.dumps(comparable(item), sort_keys=True))


def _varying(text: str) -> str:
    """Return a text without its random parts. Upstream lists autoscalers in any order."""
    return _SCALERS.sub(lambda found: f"[{' '.join(sorted(found[1].split()))}]", _VARIES.sub("*", text))


def metrics_definition() -> Json:
    """Return a definition that serves the metrics API without an API server of its own."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": schema}
    return {
        "metadata": {
            "name": "pods.metrics.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {"group": "metrics.k8s.io", "scope": "Namespaced", "versions": [version],
                 "names": {"plural": "pods", "singular": "pod", "kind": "PodMetrics", "listKind": "PodMetricsList"}},
    }  # fmt: skip


async def compare(directory: Path, lives: list[ClusterLife]) -> list[str]:
    lines: list[str] = []
    #: What differs is told once.
    seen: set[tuple[str, str]] = set()
    certificate, key = load_or_create_authority(directory / "authority")
    flags = [*FLAGS, f"--cluster-signing-cert-file={certificate}", f"--cluster-signing-key-file={key}"]
    async with both(directory, COMPARED, OTHERS, flags=flags, only_theirs=ONLY_THEIRS) as clients:
        players = [Player(client) for client in clients]
        for client in clients:
            await client.create(CUSTOM_RESOURCES, metrics_definition())
            while any(node["spec"].get("taints") for node in (await client.list(NODES))["items"]):
                await asyncio.sleep(0.1)
            for each in lives:
                await client.create(NAMESPACES, {"metadata": {"name": each.namespace}})
        for number in range(max(len(each.steps) for each in lives)):
            playing = [each for each in lives if number < len(each.steps)]
            said = [await asyncio.gather(*(p.play(each, each.steps[number]) for each in playing)) for p in players]
            lines += [f"{each.topic}: {a} / {b}" for each, a, b in zip(playing, *said, strict=True) if a != b]
            await asyncio.sleep(_LEAST)
            autoscaled = [each for each in lives if each.topic == "autoscaler"]
            if autoscaled:
                await asyncio.gather(*(player.use(each) for player in players for each in autoscaled))
                await asyncio.sleep(5)
                await asyncio.gather(*(player.use(each) for player in players for each in autoscaled))
            if any(each.topic == "node" for each in lives):
                await asyncio.sleep(16)
            if any(each.waits for each in lives):
                await asyncio.sleep(62 - now().timestamp() % 60)
            for each, different in zip(playing, await settled(players, playing), strict=True):
                new = [line for line in different if (each.namespace, line) not in seen]
                seen |= {(each.namespace, line) for line in new}
                if new:
                    lines.append(f"== {each.topic} {each.namespace} after {number}")
                    lines += [f"    {act}" for step in each.steps[: number + 1] for act in step]
                    lines += new
            print(f"step {number}", flush=True)
    return lines


async def settled(players: list[Player], lives: list[ClusterLife]) -> list[list[str]]:
    """Return the final differences of each life. Earlier ones do not count, since one side may be slower."""
    patience = Deadline(_SLOWER)
    while True:
        found = []
        for each in lives:
            ours, theirs = [await player.state(each) for player in players]
            found.append(differences(ours, theirs))
        if not any(found) or patience.passed:
            return found
        await asyncio.sleep(1)


def test_both_make_the_same_of_it_after_each_step(tmp_path: Path) -> None:
    lives = [
        cluster_life(topic, number * 20 + place, SEED + number)
        for place, topic in enumerate(CHOSEN)
        for number in range(COUNT)
    ]
    lines = asyncio.run(compare(tmp_path, lives))
    assert lines == [], "\n".join(lines)
