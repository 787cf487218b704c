"""The claims of a StatefulSet's pods, their owners by the retention policy, and one whole pass over a set."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.runtime.times import go_time
from controllers.workloads.common.history import template_patch
from controllers.workloads.statefulset.claims import ClaimError, Claims
from controllers.workloads.statefulset.component import UNAVAILABLE_GATE, StatefulSets
from tests.support.objects import make_metadata, make_pod
from tests.support.recording import RecordingClient, reconcile_once

pytestmark = pytest.mark.integration

SELECTOR = {"matchLabels": {"app": "s"}}


def owner(replicas: int = 1, policy: tuple[str, str] | None = None, **spec: Any) -> Json:
    """Build the StatefulSet `s`. `policy`: what becomes of claims when it is deleted, and when it is scaled down."""
    template = {"metadata": {"labels": {"app": "s"}}, "spec": {"containers": []}}
    claims = [{"metadata": {"name": "data", "labels": {"mine": "1", "app": "x"}}, "spec": {"size": 1}, "status": {}}]
    given = {"whenDeleted": policy[0], "whenScaled": policy[1]} if policy else None
    return {
        "apiVersion": "apps/v1", "kind": "StatefulSet", "status": spec.pop("status", {}),
        "metadata": make_metadata("s", "ns", "s-uid", generation=2),
        "spec": {"replicas": replicas, "selector": SELECTOR, "template": template, "volumeClaimTemplates": claims,
                 **({"persistentVolumeClaimRetentionPolicy": given} if given else {}), **spec},
    }  # fmt: skip


OF_SET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "s-uid"}
OF_POD = {"apiVersion": "v1", "kind": "Pod", "name": "s-0", "uid": "p-uid"}
STALE_SET, STALE_POD = {**OF_SET, "uid": "earlier"}, {**OF_POD, "uid": "earlier"}
OTHER = {"apiVersion": "v1", "kind": "Thing", "name": "t", "uid": "t"}
LEADS = {"controller": True}
BY_SET, BY_POD = [{**OF_SET, **LEADS}], [{**OF_POD, **LEADS}]


def claim(*owners: Json, **metadata: Any) -> Json:
    metadata = make_metadata("data-s-0", "ns", "c", ownerReferences=owners, **metadata)
    return {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {}}


POD = make_pod("s-0", uid="p-uid")


class ClaimClient(RecordingClient):
    """Holds claims of the set. `written`: the names of claims that the informer must show first."""

    def __init__(self, *claims: Json, **refuses: tuple[int, str]) -> None:
        super().__init__()
        self.refuses, self.written = {**refuses}, list[str]()
        self.set_objects(*claims)
        self.claims = Claims(
            self,  # type: ignore[arg-type]
            self.informer("PersistentVolumeClaim"),
            self.recorder,  # type: ignore[arg-type]
            lambda _, claim: self.written.append(claim["metadata"]["name"]),
        )

    async def create_claims(self, of: Json, pod: Json = POD) -> str:
        """Create the claims of a pod, and return the error."""
        try:
            await self.claims.create(of, pod)
        except ClaimError as error:
            return str(error)
        return ""

    async def set_owners(self, of: Json) -> list[list[Json]]:
        """Set the owners of a pod's claims, and return those that are written."""
        await self.claims.set_owners(of, POD)
        return [body["metadata"]["ownerReferences"] for body in self.bodies("update")]


async def test_a_claim_that_is_missing_is_made_of_its_template() -> None:
    client = ClaimClient()
    assert await client.create_claims(owner(), make_pod("s-3")) == ""
    [(verb, kind, made)] = client.writes
    assert (verb, kind, made["spec"], "status" in made) == ("create", "PersistentVolumeClaim", {"size": 1}, False)
    assert (made["apiVersion"], made["kind"]) == ("v1", "PersistentVolumeClaim")
    assert made["metadata"] == {"name": "data-s-3", "namespace": "ns", "labels": {"mine": "1", "app": "s"}}
    assert client.written == ["data-s-3"]
    text = "Create Claim data-s-3 Pod s-3 in StatefulSet s success"
    assert client.events == [("Normal", "SuccessfulCreate", text)]
    there = ClaimClient(claim())
    assert (await there.create_claims(owner()), there.writes) == ("", [])
    bare = owner(selector={})
    bare["spec"]["volumeClaimTemplates"][0]["metadata"].pop("labels")
    client = ClaimClient()
    await client.create_claims(bare)
    assert client.writes[0][2]["metadata"]["labels"] == {}


async def test_all_errors_of_claims_are_reported() -> None:
    deleted = claim(deletionTimestamp="x")
    assert await ClaimClient(deleted).create_claims(owner()) == "pvc data-s-0 is being deleted"
    two = owner()
    two["spec"]["volumeClaimTemplates"].append({"metadata": {"name": "more"}, "spec": {}})
    client = ClaimClient(deleted, create=(403, "Forbidden"))
    assert await client.create_claims(two) == "[pvc data-s-0 is being deleted, failed to create PVC more-s-0: refused]"
    text = "Create Claim more-s-0 for Pod s-0 in StatefulSet s failed error: refused"
    assert client.events == [("Warning", "FailedCreate", text)]
    taken = ClaimClient(create=(409, "AlreadyExists"))
    assert await taken.create_claims(owner()) == "failed to create PVC data-s-0: refused"
    assert taken.events == []


DELETED, SCALED, BOTH = ("Delete", "Retain"), ("Retain", "Delete"), ("Delete", "Delete")


@pytest.mark.parametrize(
    ("policy", "replicas", "there", "written"),
    [
        (None, 1, [], None),
        (("Retain", "Retain"), 1, [], None),
        (DELETED, 1, [], BY_SET),
        (DELETED, 1, BY_SET, None),
        (DELETED, 0, [], BY_SET),
        (SCALED, 1, [], None),
        (SCALED, 0, [], BY_POD),
        (SCALED, 0, BY_POD, None),
        (SCALED, 1, BY_POD, []),
        (BOTH, 1, [], BY_SET),
        (BOTH, 0, BY_SET, BY_POD),
        (BOTH, 1, BY_POD, BY_SET),
        (None, 1, BY_SET, []),
        (DELETED, 1, [OF_SET], BY_SET),
        (SCALED, 0, [OF_POD], BY_POD),
        (None, 1, [OTHER], None),
        (DELETED, 1, [OTHER], [OTHER, *BY_SET]),
        (DELETED, 1, [{**OTHER, **LEADS}], None),
        (DELETED, 1, [{**OTHER, **LEADS}, *BY_SET], [{**OTHER, **LEADS}]),
        (SCALED, 0, [{**OTHER, **LEADS}, *BY_POD], [{**OTHER, **LEADS}]),
        (None, 1, [{**OTHER, **LEADS}, *BY_SET], [{**OTHER, **LEADS}]),
        (DELETED, 1, [STALE_SET], None),
        (DELETED, 1, [STALE_POD], None),
        (None, 1, [STALE_POD, OF_SET], None),
        (DELETED, 1, [{**OF_SET, "kind": "Deployment"}], [{**OF_SET, "kind": "Deployment"}, *BY_SET]),
    ],
)
async def test_the_policy_decides_the_owners_of_a_claim(
    policy: Any, replicas: int, there: list[Json], written: list[Json] | None
) -> None:
    client, of = ClaimClient(claim(*there)), owner(replicas, policy)
    assert client.claims.has_owners(of, POD) is (written is None)
    found = [[{name: value for name, value in each.items() if name != "blockOwnerDeletion"} for each in owners]
             for owners in await client.set_owners(of)]  # fmt: skip
    assert found == ([] if written is None else [written])
    assert client.written == ([] if written is None else ["data-s-0"])
    foreign = policy is not None and any(each.get("controller") and each["kind"] == "Thing" for each in there)
    stale = policy is not None and any(each["uid"] == "earlier" for each in there)
    assert client.reasons == (["ConflictingController"] if foreign or stale else [])


async def test_missing_claims_have_no_owners() -> None:
    client = ClaimClient()
    assert client.claims.has_owners(owner(1, DELETED), POD)
    assert await client.set_owners(owner(1, DELETED)) == []
    with pytest.raises(StatusError):
        await ClaimClient(claim(), update=(403, "Forbidden")).set_owners(owner(1, DELETED))


@pytest.mark.parametrize(
    ("policy", "owners", "stale"),
    [(SCALED, [STALE_POD], True), (SCALED, [OF_POD], False), (SCALED, [STALE_SET], False), (DELETED, [STALE_POD], False),
     (None, [STALE_POD], False), (SCALED, [OTHER, STALE_POD], True), (SCALED, [], False)],
)  # fmt: skip
async def test_a_claim_that_goes_with_an_earlier_pod_is_waited_for(
    policy: Any, owners: list[Json], stale: bool
) -> None:
    assert ClaimClient(claim(*owners)).claims.is_stale(owner(1, policy), POD) is stale
    assert not ClaimClient().claims.is_stale(owner(1, policy), POD)


# --- one whole pass


def revision(name: str, number: int, of: Json) -> Json:
    metadata = make_metadata(
        name, "ns", labels={"app": "s"}, creationTimestamp="2026-01-01T00:00:00Z", ownerReferences=BY_SET
    )
    return {"kind": "ControllerRevision", "metadata": metadata, "revision": number, "data": template_patch(of)}


def member(number: int, of: str = "r1", age: float = 60, name: str = "", owned: bool = True, **status: Any) -> Json:
    """Build a pod of the set that has been ready for so many seconds."""
    name = name or f"s-{number}"
    labels = {"app": "s", "controller-revision-hash": of, "statefulset.kubernetes.io/pod-name": f"s-{number}"}
    since = go_time(clock.now() - timedelta(seconds=age))
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": since}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-s-{number}"}}]
    return make_pod(
        name, labels=labels, owner=owner() if owned else None, created=since, volumes=volumes,
        status={"phase": "Running", "conditions": [condition], **status},
    )  # fmt: skip


async def reconcile(of: Json, *objects: Json, refuses: Any = None, **gates: bool) -> RecordingClient:
    """Reconcile a set with its revisions and pods once."""
    return await reconcile_once(StatefulSets, "ns/s", of, *objects, refuses=refuses, gates=gates)


def plain(replicas: int = 1, image: str = "a", **more: Any) -> Json:
    made = owner(replicas, **more)
    made["spec"]["template"]["spec"]["containers"] = [{"image": image}]
    made["spec"].setdefault("updateStrategy", {"type": "RollingUpdate"})
    made["spec"].pop("volumeClaimTemplates")
    return made


async def test_a_new_set_gets_a_revision_its_first_pod_and_a_status() -> None:
    client = await reconcile(plain(2))
    [made] = client.bodies("create", "ControllerRevision")
    [first] = client.bodies("create", "Pod")
    assert (made["revision"], first["metadata"]["name"]) == (1, "s-0")
    name = made["metadata"]["name"]
    assert first["metadata"]["labels"]["controller-revision-hash"] == name
    assert client.status == {
        "observedGeneration": 2, "replicas": 0, "readyReplicas": 0, "availableReplicas": 0, "currentReplicas": 0,
        "updatedReplicas": 0, "currentRevision": name, "updateRevision": name, "collisionCount": 0,
    }  # fmt: skip


def status(**more: Any) -> Json:
    return {"observedGeneration": 2, "replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "currentReplicas": 2,
            "updatedReplicas": 2, "currentRevision": "r1", "updateRevision": "r1", "collisionCount": 0, **more}  # fmt: skip


async def test_an_unchanged_set_is_left_alone() -> None:
    well, pods = plain(2, status=status()), [member(0), member(1)]
    assert (await reconcile(well, revision("r1", 1, well), *pods)).writes == []
    for change in ({"observedGeneration": 1}, {"replicas": 1}, {"readyReplicas": 0}, {"availableReplicas": 1},
                   {"currentReplicas": 1}, {"updatedReplicas": 0}, {"updateRevision": "x"}):  # fmt: skip
        other = plain(2, status=status(**change))
        assert (await reconcile(other, revision("r1", 1, other), *pods)).statuses == [status()]
    newer = plain(2, status=status(observedGeneration=3))
    assert (await reconcile(newer, revision("r1", 1, newer), *pods)).writes == []


async def test_when_all_pods_are_of_the_new_template_it_is_the_current_one() -> None:
    of = plain(2, "b", status=status(updateRevision="r2"))
    known = [revision("r1", 1, plain(2, "a")), revision("r2", 2, of)]
    done = (await reconcile(of, *known, member(0, "r2"), member(1, "r2"))).status
    assert (done["currentRevision"], done["currentReplicas"], done["updateRevision"]) == ("r2", 2, "r2")
    half = await reconcile(of, *known, member(0, "r1"), member(1, "r2"))
    assert half.bodies("delete", "Pod") == [("ns/s-0", {})]
    fields = ("currentRevision", "currentReplicas", "updatedReplicas")
    assert [half.status[name] for name in fields] == ["r1", 0, 1]
    by_hand = plain(2, "b", status=status(updateRevision="r2"), updateStrategy={"type": "OnDelete"})
    kept = (await reconcile(by_hand, *known, member(0, "r2"), member(1, "r2"))).status
    assert (kept["currentRevision"], kept["currentReplicas"]) == ("r1", 0)


async def test_a_template_that_comes_back_has_its_revision_renumbered_and_old_ones_go() -> None:
    of = plain(0, "a", status=status(), revisionHistoryLimit=1)
    known = [revision("r1", 1, of), revision("r2", 2, plain(0, "b")), revision("r3", 3, plain(0, "c"))]
    client = await reconcile(of, *known)
    [again] = client.bodies("update", "ControllerRevision")
    assert (again["metadata"]["name"], again["revision"]) == ("r1", 4)
    assert [name for name, _ in client.bodies("delete", "ControllerRevision")] == ["ns/r2"]
    default = plain(0, "a", status=status())
    many = [revision(f"x{n}", n, plain(0, f"i{n}")) for n in range(1, 13)] + [revision("r1", 13, default)]
    assert len((await reconcile(default, *many)).bodies("delete", "ControllerRevision")) == 2


async def test_a_set_is_reconciled_again_when_a_pod_will_be_available() -> None:
    of = plain(2, minReadySeconds=100, status=status())
    client = await reconcile(of, revision("r1", 1, of), member(0), member(1, age=70))
    assert client.requeue_after == timedelta(seconds=30)
    assert client.status["availableReplicas"] == 0
    of = plain(2, status=status())
    assert (await reconcile(of, revision("r1", 1, plain(2)), member(0), member(1))).requeue_after is None


async def test_pods_without_an_owner_are_adopted_by_name() -> None:
    of = plain(1, status=status())
    orphans = [member(0, name=name, owned=False) for name in ("s-0", "t-0")]
    client = await reconcile(of, revision("r1", 1, of), *orphans)
    [(name, body)] = client.bodies("patch", "Pod")
    assert (name, body["metadata"]["ownerReferences"][0]["uid"]) == ("s-0", "s-uid")
    assert client.status["replicas"] == 1


async def test_unavailable_pods_are_measured_where_several_are_updated_at_once() -> None:
    of = plain(4, status=status(), updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}})
    objects = revision("r1", 1, of), member(0), member(1), member(2), member(3, age=0, conditions=[])
    off = (await reconcile(of, *objects, **{UNAVAILABLE_GATE: False})).component
    assert (off._limits, off._unavailable) == ({}, {})
    on = (await reconcile(of, *objects, **{UNAVAILABLE_GATE: True})).component
    key = ("ns", "s", "")
    assert on._limits == {key: 2}
    limits, unavailable = on.metrics[-2:]
    assert (limits._read(), limits.name) == ({key: 2}, "statefulset_controller_statefulset_max_unavailable")
    assert unavailable._read() == on._unavailable
    on._limits[("ns", "t", "")] = 1
    on.owner_deleted("ns/s")
    assert on._limits == {("ns", "t", ""): 1}


async def test_a_status_is_written_even_when_a_pod_cannot_be_made() -> None:
    client = await reconcile(plain(1), refuses={"create": (403, "Forbidden")})
    assert isinstance(client.error, StatusError)
    client = await reconcile(plain(1), revision("r1", 1, plain(1)), refuses={"create": (403, "Forbidden")})
    assert isinstance(client.error, StatusError)
    assert client.status["replicas"] == 0
    assert client.reasons == ["FailedCreate"]
