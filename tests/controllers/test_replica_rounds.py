"""What one look at a ReplicaSet makes, deletes and says of it, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.options.options import Options
from controllers.runtime.kinds import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, Kind
from controllers.runtime.times import go_time
from controllers.workloads.replicaset.replicaset import BURST, NAME, ReplicaSets
from tests.support.recording import FakeRecorder, RecordingClient, make_informers
from tests.support.virtual import run

pytestmark = pytest.mark.integration

LABELS = {"app": "web"}
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def owner(replicas: int | None = 2, name: str = "web", kind: str = "ReplicaSet", **spec: Any) -> Json:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": []}}
    selector = LABELS if kind == "ReplicationController" else {"matchLabels": LABELS}
    wanted = {} if replicas is None else {"replicas": replicas}
    metadata = {"name": name, "namespace": "ns", "uid": f"u-{name}", "generation": 3}
    return {"kind": kind, "metadata": metadata, "spec": {**wanted, "selector": selector, "template": template, **spec}}


def pod(name: str, of: str = "web", ready: bool = False, age: float = 60, going: bool = False, **more: Any) -> Json:
    """`age`: seconds, also since it was ready."""
    made = go_time(LONG_AGO if age == float("inf") else clock.now() - timedelta(seconds=age))
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": of, "uid": f"u-{of}", "controller": True}
    metadata = {
        "name": name, "namespace": "ns", "uid": name, "labels": more.pop("labels", LABELS), "creationTimestamp": made,
        "ownerReferences": [reference], **({"deletionTimestamp": made} if going else {}),
    }  # fmt: skip
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": made}] if ready else []
    status = {"phase": more.pop("phase", "Running"), "conditions": conditions}
    return {"metadata": metadata, "spec": {"nodeName": more.pop("on", "n")}, "status": status}


class Look:
    """Looks at the owners, of which the first is asked about; `pods` are made on the loop, whose time they name."""

    def __init__(
        self,
        found: Json,
        pods: Any = lambda: (),
        *others: Json,
        refuses: dict[str, tuple[int, str]] | None = None,
        details: Json | None = None,
        kind: Kind = REPLICA_SETS,
        gates: Json | None = None,
        looks: Sequence[float] = (0,),
    ) -> None:
        """`looks`: the pauses before each."""
        self.client, self.told = RecordingClient({"Pod": self._made}), FakeRecorder()
        self.client.refuses = refuses or {}
        self.details, self.error, self.again = details, None, None

        async def scenario() -> None:
            informers = make_informers(kind, found, *others)
            make_informers(PODS, *pods(), informers=informers)
            options = Options(gates=gates or {})
            self.part = ReplicaSets(NAME, self.client, informers, options, kind, source=NAME, queue="replicaset")  # type: ignore[arg-type]
            self.part.recorder = self.told  # type: ignore[assignment]
            self.part._control._recorder = self.told  # type: ignore[assignment]
            for pause in looks:
                await asyncio.sleep(pause)
                self.client.writes = []
                self.error = None
                try:
                    self.again = await self.part.sync("ns/web", found)
                except StatusError as error:
                    self.error = error

        run(scenario)

    def _made(self, body: Any) -> Any:
        return {**body, "metadata": {**body["metadata"], "name": "made"}} if isinstance(body, dict) else body

    def of(self, verb: str) -> list[Any]:
        return [what for how, _, what in self.client.writes if how == verb]

    @property
    def deleted(self) -> list[str]:
        return sorted(name.removeprefix("ns/") for name, _ in self.of("delete"))

    @property
    def status(self) -> Json:
        [written] = self.of("update/status")
        found: Json = written["status"]
        return found


@pytest.mark.parametrize(
    ("replicas", "there", "made", "gone"),
    [(None, 0, 1, 0), (None, 1, 0, 0), (0, 1, 0, 1), (2, 0, 2, 0), (2, 2, 0, 0), (2, 5, 0, 3), (3, 2, 1, 0),
     (BURST + 9, 0, BURST, 0)],
)  # fmt: skip
def test_the_difference_is_made_or_deleted(replicas: int | None, there: int, made: int, gone: int) -> None:
    look = Look(owner(replicas), lambda: [pod(f"p{number}") for number in range(there)])
    assert (len(look.of("create")), len(look.of("delete"))) == (made, gone)
    assert look.told.reasons == ["SuccessfulCreate"] * made + ["SuccessfulDelete"] * gone
    assert all(body["metadata"]["labels"] == LABELS for body in look.of("create"))
    assert look.status["replicas"] == there


def test_pods_that_end_or_go_are_replaced_and_those_that_go_are_counted() -> None:
    def pods() -> list[Json]:
        return [pod("ended", phase="Failed"), pod("goes", going=True), pod("over", phase="Succeeded", going=True),
                pod("other", labels={"app": "x"}, going=True), pod("others", of="another", going=True)]  # fmt: skip

    look = Look(owner(1), pods)
    assert len(look.of("create")) == 1
    assert look.status == {"replicas": 0, "terminatingReplicas": 1, "observedGeneration": 3}
    off = Look(owner(1), pods, gates={"DeploymentReplicaSetTerminatingReplicas": False})
    assert off.status == {"replicas": 0, "observedGeneration": 3}
    old = owner(1, kind="ReplicationController")
    assert "terminatingReplicas" not in Look(old, pods, kind=REPLICATION_CONTROLLERS).status


def test_an_owner_that_is_being_deleted_makes_and_deletes_nothing() -> None:
    found = owner(0)
    found["metadata"]["deletionTimestamp"] = "x"
    look = Look(found, lambda: [pod("a")])
    assert (look.of("create"), look.deleted, look.status["replicas"]) == ([], [], 1)


def test_what_was_asked_for_is_not_asked_for_again_until_it_is_seen() -> None:
    assert len(Look(owner(2), looks=(0, 1)).of("create")) == 0
    assert len(Look(owner(2), looks=(0, 299)).of("create")) == 0
    assert len(Look(owner(2), looks=(0, 301)).of("create")) == 2
    pods = lambda: [pod("a")]  # noqa: E731
    assert Look(owner(0), pods, looks=(0, 1)).deleted == []
    assert Look(owner(0), pods, looks=(0, 301)).deleted == ["a"]
    refused = Look(owner(2), looks=(0, 1), refuses={"create": (403, "Forbidden")})
    assert len(refused.of("create")) == 1, "what was refused is not waited for"
    refused = Look(owner(0), pods, looks=(0, 1), refuses={"delete": (403, "Forbidden")})
    assert len(refused.of("delete")) == 1


def test_nothing_is_waited_for_of_an_owner_that_is_gone() -> None:
    look = Look(owner(2))
    assert not run_satisfied(look)
    look.part.owner_deleted("ns/web")
    assert run_satisfied(look)


def run_satisfied(look: Look) -> bool:
    async def asked() -> bool:
        return look.part._expectations.is_satisfied("ns/web")

    return run(asked)


def test_a_failure_stands_in_a_condition_and_is_tried_again() -> None:
    for found, pods, verb, reason in (
        (owner(None), (), "create", "FailedCreate"),
        (owner(2), (), "create", "FailedCreate"),
        (owner(0), ("a", "b"), "delete", "FailedDelete"),
    ):
        look = Look(found, lambda names=pods: [pod(name) for name in names], refuses={verb: (403, "Forbidden")})
        assert look.error is not None
        [condition] = look.status["conditions"]
        assert (condition["type"], condition["status"], condition["reason"], condition["message"]) == (
            "ReplicaFailure", "True", reason, str(look.error),
        )  # fmt: skip
        assert set(look.told.reasons) == {reason}


def test_a_condition_stays_while_it_fails_and_goes_when_it_does_not() -> None:
    failed = {"type": "ReplicaFailure", "status": "True", "reason": "FailedDelete", "message": "before"}
    other = {"type": "Mine", "status": "True"}
    found = {**owner(1), "status": {"replicas": 7, "readyReplicas": 7, "mine": 1, "conditions": [failed, other]}}
    again = Look(found, refuses={"create": (403, "Forbidden")}).status
    assert again["conditions"] == [failed, other]
    well = Look(found).status
    assert well == {"replicas": 0, "terminatingReplicas": 0, "observedGeneration": 3, "mine": 1, "conditions": [other]}


def test_a_pod_that_is_gone_needs_no_deletion() -> None:
    look = Look(owner(0), lambda: [pod("a")], refuses={"delete": (404, "NotFound")})
    assert (look.error, look.told.reasons, look.status["replicas"]) == (None, [], 1)


def test_a_status_that_says_so_already_is_not_written() -> None:
    status = {"replicas": 1, "fullyLabeledReplicas": 1, "terminatingReplicas": 0, "observedGeneration": 3}
    assert Look({**owner(1), "status": status}, lambda: [pod("a")]).client.writes == []


def test_pods_are_counted_by_what_they_are() -> None:
    def pods() -> list[Json]:
        return [pod("a", ready=True, age=100), pod("b", ready=True, age=0), pod("c"),
                pod("d", labels={**LABELS, "tier": "x"})]  # fmt: skip

    full = owner(4)
    full["spec"]["template"]["metadata"]["labels"] = {**LABELS, "tier": "x"}
    counts = {"replicas": 4, "fullyLabeledReplicas": 1, "readyReplicas": 2, "availableReplicas": 2}
    at_once = Look(full, pods)
    assert {name: at_once.status[name] for name in counts} == counts
    assert at_once.again is None
    full["spec"]["minReadySeconds"] = 60
    later = Look(full, pods)
    assert (later.status["availableReplicas"], later.again) == (1, timedelta(seconds=60))
    bare = owner(4)
    bare["spec"]["template"] = {}
    assert Look(bare, pods).status["fullyLabeledReplicas"] == 4


def test_pods_on_nodes_with_more_of_the_same_controller_go_first() -> None:
    controller = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u-d", "controller": True}
    found, sibling, stranger = owner(1), owner(2, "sibling"), owner(2, "stranger")
    sibling["spec"]["selector"] = {"matchLabels": {"app": "sibling"}}
    stranger["spec"]["selector"] = {"matchLabels": {"app": "stranger"}}

    def pods() -> list[Json]:
        return [pod("x", on="full", ready=True, age=10), pod("y", on="other", ready=True, age=10),
                pod("s", of="sibling", on="full", labels={"app": "sibling"}),
                *(pod(f"t{n}", of="stranger", on="other", labels={"app": "stranger"}) for n in range(3))]  # fmt: skip

    for each in (found, sibling):
        each["metadata"]["ownerReferences"] = [controller]
    assert Look(found, pods, sibling, stranger).deleted == ["x"]
    sibling["metadata"]["ownerReferences"] = [{**controller, "uid": "another"}]
    found["metadata"]["ownerReferences"] = []
    stranger["metadata"]["ownerReferences"] = [controller]
    alone = Look(found, lambda: [pod("x", on="a", age=10), pod("y", on="b", age=10), pod("z", on="b", age=10)], sibling)
    assert len(alone.deleted) == 2


@pytest.mark.parametrize(
    ("ages", "replicas", "ratios"),
    [
        ([(100, True), (1000, True)], 1, [1]),
        ([(100, True), (250, True), (100, False)], 0, []),
        ([(100, True), (250, True), (50, False)], 2, []),
        ([(100, True), (2_000_000, True), (2_000_001, True)], 1, [1, 20000]),
        ([(0, True), (0, True)], 1, []),
    ],
)
def test_how_old_pods_were_that_went_is_measured_by_the_youngest(
    ages: list[tuple[float, bool]], replicas: int, ratios: list[int]
) -> None:
    look = Look(owner(replicas), lambda: [pod(f"p{n}", ready=ready, age=age) for n, (age, ready) in enumerate(ages)])
    assert len(look.deleted) == len(ages) - replicas
    [sample] = look.part._age_ratio._samples.values()
    assert (sum(sample.counts), sample.sum) == (len(ratios), sum(ratios))
