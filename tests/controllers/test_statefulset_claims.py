"""The claims of a StatefulSet's pods: made with them, owned as the policy says; and one whole look at a set."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.options.options import Options
from controllers.runtime.kinds import CONTROLLER_REVISIONS, PODS, STATEFUL_SETS, VOLUME_CLAIMS
from controllers.runtime.times import go_time
from controllers.workloads.common.history import template_patch
from controllers.workloads.statefulset.claims import ClaimError, Claims
from controllers.workloads.statefulset.component import UNAVAILABLE_GATE, StatefulSets
from tests.support.recording import FakeRecorder, RecordingClient, make_informers
from tests.support.virtual import run

pytestmark = pytest.mark.integration

SELECTOR = {"matchLabels": {"app": "s"}}


def owner(replicas: int = 1, policy: tuple[str, str] | None = None, **spec: Any) -> Json:
    """`policy`: what becomes of claims when the set is deleted, and when it is scaled down."""
    template = {"metadata": {"labels": {"app": "s"}}, "spec": {"containers": []}}
    claims = [{"metadata": {"name": "data", "labels": {"mine": "1", "app": "x"}}, "spec": {"size": 1}, "status": {}}]
    given = {"whenDeleted": policy[0], "whenScaled": policy[1]} if policy else None
    return {
        "apiVersion": "apps/v1", "kind": "StatefulSet", "status": spec.pop("status", {}),
        "metadata": {"name": "s", "namespace": "ns", "uid": "s-uid", "generation": 2},
        "spec": {"replicas": replicas, "selector": SELECTOR, "template": template, "volumeClaimTemplates": claims,
                 **({"persistentVolumeClaimRetentionPolicy": given} if given else {}), **spec},
    }  # fmt: skip


def pod(number: int = 0, uid: str = "p-uid", **more: Any) -> Json:
    return {"metadata": {"name": f"s-{number}", "namespace": "ns", "uid": uid}, "spec": {}, **more}


OF_SET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "s-uid"}
OF_POD = {"apiVersion": "v1", "kind": "Pod", "name": "s-0", "uid": "p-uid"}
STALE_SET, STALE_POD = {**OF_SET, "uid": "earlier"}, {**OF_POD, "uid": "earlier"}
OTHER = {"apiVersion": "v1", "kind": "Thing", "name": "t", "uid": "t"}
LEADS = {"controller": True}
BY_SET, BY_POD = [{**OF_SET, **LEADS}], [{**OF_POD, **LEADS}]


def claim(*owners: Json, **metadata: Any) -> Json:
    named = {"name": "data-s-0", "namespace": "ns", "uid": "c", "ownerReferences": list(owners), **metadata}
    return {"metadata": named, "spec": {}}


class Kept:
    """The claims of a set of which these are there."""

    def __init__(self, *there: Json, **refuses: tuple[int, str]) -> None:
        self.client, self.told, self.wrote = RecordingClient(), FakeRecorder(), list[str]()
        self.client.refuses = refuses
        informer = make_informers(VOLUME_CLAIMS, *there).of(VOLUME_CLAIMS)
        self.claims = Claims(
            self.client,  # type: ignore[arg-type]
            informer,
            self.told,  # type: ignore[arg-type]
            lambda _, claim: self.wrote.append(claim["metadata"]["name"]),
        )

    def create(self, of: Json, *pods: Json) -> str:
        """What is wrong."""

        async def scenario() -> str:
            try:
                for each in pods:
                    await self.claims.create(of, each)
            except ClaimError as error:
                return str(error)
            return ""

        return run(scenario)

    def set_owners(self, of: Json, *pods: Json) -> list[list[Json]]:
        """The owners that are written."""

        async def scenario() -> None:
            for each in pods:
                await self.claims.set_owners(of, each)

        run(scenario)
        return [body["metadata"]["ownerReferences"] for _, _, body in self.client.writes]


def test_a_claim_that_is_missing_is_made_of_its_template() -> None:
    kept = Kept()
    assert kept.create(owner(), pod(3)) == ""
    [(verb, kind, made)] = kept.client.writes
    assert (verb, kind, made["spec"], "status" in made) == ("create", "PersistentVolumeClaim", {"size": 1}, False)
    assert (made["apiVersion"], made["kind"]) == ("v1", "PersistentVolumeClaim")
    assert made["metadata"] == {"name": "data-s-3", "namespace": "ns", "labels": {"mine": "1", "app": "s"}}
    assert kept.wrote == ["data-s-3"]
    assert kept.told.events == [
        ("Normal", "SuccessfulCreate", "Create Claim data-s-3 Pod s-3 in StatefulSet s success")
    ]
    assert (Kept(claim()).create(owner(), pod()), Kept(claim()).client.writes) == ("", [])
    bare = owner(selector={})
    bare["spec"]["volumeClaimTemplates"][0]["metadata"].pop("labels")
    kept = Kept()
    kept.create(bare, pod())
    assert kept.client.writes[0][2]["metadata"]["labels"] == {}


def test_all_that_is_wrong_with_claims_is_said() -> None:
    going = claim(deletionTimestamp="x")
    assert Kept(going).create(owner(), pod()) == "pvc data-s-0 is being deleted"
    two = owner()
    two["spec"]["volumeClaimTemplates"].append({"metadata": {"name": "more"}, "spec": {}})
    kept = Kept(going, create=(403, "Forbidden"))
    assert kept.create(two, pod()) == "[pvc data-s-0 is being deleted, failed to create PVC more-s-0: refused]"
    said = "Create Claim more-s-0 for Pod s-0 in StatefulSet s failed error: refused"
    assert kept.told.events == [("Warning", "FailedCreate", said)]
    taken = Kept(create=(409, "AlreadyExists"))
    assert taken.create(owner(), pod()) == "failed to create PVC data-s-0: refused"
    assert taken.told.events == []


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
def test_a_claim_is_owned_by_whom_the_policy_says(
    policy: Any, replicas: int, there: list[Json], written: list[Json] | None
) -> None:
    kept, of = Kept(claim(*there)), owner(replicas, policy)
    assert kept.claims.has_owners(of, pod()) is (written is None)
    found = [[{name: value for name, value in each.items() if name != "blockOwnerDeletion"} for each in owners]
             for owners in kept.set_owners(of, pod())]  # fmt: skip
    assert found == ([] if written is None else [written])
    assert kept.wrote == ([] if written is None else ["data-s-0"])
    foreign = policy is not None and any(each.get("controller") and each["kind"] == "Thing" for each in there)
    stale = policy is not None and any(each["uid"] == "earlier" for each in there)
    assert kept.told.reasons == (["ConflictingController"] if foreign or stale else [])


def test_claims_that_are_not_there_have_no_owners() -> None:
    kept = Kept()
    assert kept.claims.has_owners(owner(1, DELETED), pod())
    assert kept.set_owners(owner(1, DELETED), pod()) == []
    with pytest.raises(StatusError):
        Kept(claim(), update=(403, "Forbidden")).set_owners(owner(1, DELETED), pod())


@pytest.mark.parametrize(
    ("policy", "owners", "stale"),
    [(SCALED, [STALE_POD], True), (SCALED, [OF_POD], False), (SCALED, [STALE_SET], False), (DELETED, [STALE_POD], False),
     (None, [STALE_POD], False), (SCALED, [OTHER, STALE_POD], True), (SCALED, [], False)],
)  # fmt: skip
def test_a_claim_that_goes_with_an_earlier_pod_is_waited_for(policy: Any, owners: list[Json], stale: bool) -> None:
    assert Kept(claim(*owners)).claims.is_stale(owner(1, policy), pod()) is stale
    assert not Kept().claims.is_stale(owner(1, policy), pod())


# --- one whole look


def revision(name: str, number: int, of: Json) -> Json:
    metadata = {"name": name, "namespace": "ns", "uid": name, "labels": {"app": "s"},
                "creationTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [{**OF_SET, **LEADS}]}  # fmt: skip
    return {"metadata": metadata, "revision": number, "data": template_patch(of)}


def member(number: int, of: str = "r1", age: float = 60, **status: Any) -> Json:
    """A pod that has been ready for so many seconds."""
    labels = {"app": "s", "controller-revision-hash": of, "statefulset.kubernetes.io/pod-name": f"s-{number}"}
    since = go_time(clock.now() - timedelta(seconds=age))
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": since}
    metadata = {"labels": labels, "ownerReferences": [{**OF_SET, **LEADS}], "creationTimestamp": since}
    found = pod(number, f"p{number}", status={"phase": "Running", "conditions": [condition], **status})
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-s-{number}"}}]
    return {**found, "metadata": {**found["metadata"], **metadata}, "spec": {"volumes": volumes}}


class Look:
    """Looks once at a set with its revisions and pods; `pods` are made on the loop, whose time they name."""

    def __init__(
        self, of: Json, revisions: list[Json], pods: Any = lambda: (), refuses: Any = None, **gates: bool
    ) -> None:
        self.client, self.told = RecordingClient({"Pod": self._answer}), FakeRecorder()
        self.client.refuses = refuses or {}
        self.client.there["StatefulSet", "s"] = of
        self.again: timedelta | None = None
        self.error: Exception | None = None

        async def scenario() -> None:
            informers = make_informers(STATEFUL_SETS, of)
            make_informers(CONTROLLER_REVISIONS, *revisions, informers=informers)
            make_informers(PODS, *pods(), informers=informers)
            self.part = StatefulSets(self.client, informers, Options(gates=gates))  # type: ignore[arg-type]
            for each in (self.part, self.part._claims):
                setattr(each, "recorder" if each is self.part else "_recorder", self.told)
            try:
                self.again = await self.part.reconcile("ns/s")
            except StatusError as error:
                self.error = error

        run(scenario)

    @staticmethod
    def _answer(what: Any) -> Any:
        return {} if isinstance(what, tuple) else what

    def of(self, verb: str, kind: str) -> list[Any]:
        return [what for how, which, what in self.client.writes if (how, which) == (verb, kind)]

    @property
    def status(self) -> Json:
        [written] = self.of("update/status", "StatefulSet")
        found: Json = written["status"]
        return found


def plain(replicas: int = 1, image: str = "a", **more: Any) -> Json:
    made = owner(replicas, **more)
    made["spec"]["template"]["spec"]["containers"] = [{"image": image}]
    made["spec"].setdefault("updateStrategy", {"type": "RollingUpdate"})
    made["spec"].pop("volumeClaimTemplates")
    return made


def test_a_new_set_gets_a_revision_its_first_pod_and_a_status() -> None:
    look = Look(plain(2), [])
    [made] = look.of("create", "ControllerRevision")
    [first] = look.of("create", "Pod")
    assert (made["revision"], first["metadata"]["name"]) == (1, "s-0")
    name = made["metadata"]["name"]
    assert first["metadata"]["labels"]["controller-revision-hash"] == name
    assert look.status == {
        "observedGeneration": 2, "replicas": 0, "readyReplicas": 0, "availableReplicas": 0, "currentReplicas": 0,
        "updatedReplicas": 0, "currentRevision": name, "updateRevision": name, "collisionCount": 0,
    }  # fmt: skip


def status(**more: Any) -> Json:
    return {"observedGeneration": 2, "replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "currentReplicas": 2,
            "updatedReplicas": 2, "currentRevision": "r1", "updateRevision": "r1", "collisionCount": 0, **more}  # fmt: skip


def test_a_set_that_is_as_it_should_be_is_left_alone() -> None:
    def pods() -> list[Json]:
        return [member(0), member(1)]

    well = plain(2, status=status())
    assert Look(well, [revision("r1", 1, well)], pods).client.writes == []
    for change in ({"observedGeneration": 1}, {"replicas": 1}, {"readyReplicas": 0}, {"availableReplicas": 1},
                   {"currentReplicas": 1}, {"updatedReplicas": 0}, {"updateRevision": "x"}):  # fmt: skip
        other = plain(2, status=status(**change))
        assert Look(other, [revision("r1", 1, other)], pods).status == status()
    newer = plain(2, status=status(observedGeneration=3))
    assert Look(newer, [revision("r1", 1, newer)], pods).client.writes == []


def test_when_all_pods_are_of_the_new_template_it_is_the_current_one() -> None:
    of = plain(2, "b", status=status(updateRevision="r2"))
    known = [revision("r1", 1, plain(2, "a")), revision("r2", 2, of)]
    done = Look(of, known, lambda: [member(0, "r2"), member(1, "r2")]).status
    assert (done["currentRevision"], done["currentReplicas"], done["updateRevision"]) == ("r2", 2, "r2")
    half = Look(of, known, lambda: [member(0, "r1"), member(1, "r2")])
    assert half.of("delete", "Pod") == [("ns/s-0", {})]
    assert (half.status["currentRevision"], half.status["currentReplicas"], half.status["updatedReplicas"]) == (
        "r1",
        0,
        1,
    )
    by_hand = plain(2, "b", status=status(updateRevision="r2"), updateStrategy={"type": "OnDelete"})
    kept = Look(by_hand, known, lambda: [member(0, "r2"), member(1, "r2")]).status
    assert (kept["currentRevision"], kept["currentReplicas"]) == ("r1", 0)


def test_a_template_that_comes_back_has_its_revision_renumbered_and_old_ones_go() -> None:
    of = plain(0, "a", status=status(), revisionHistoryLimit=1)
    known = [revision("r1", 1, of), revision("r2", 2, plain(0, "b")), revision("r3", 3, plain(0, "c"))]
    look = Look(of, known)
    [again] = look.of("update", "ControllerRevision")
    assert (again["metadata"]["name"], again["revision"]) == ("r1", 4)
    assert [name for name, _ in look.of("delete", "ControllerRevision")] == ["ns/r2"]
    default = plain(0, "a", status=status())
    many = [revision(f"x{n}", n, plain(0, f"i{n}")) for n in range(1, 13)] + [revision("r1", 13, default)]
    assert len(Look(default, many).of("delete", "ControllerRevision")) == 2


def test_it_is_looked_at_again_when_a_pod_will_be_available() -> None:
    of = plain(2, minReadySeconds=100, status=status())
    look = Look(of, [revision("r1", 1, of)], lambda: [member(0), member(1, age=70)])
    assert look.again == timedelta(seconds=30)
    assert look.status["availableReplicas"] == 0
    assert Look(plain(2, status=status()), [revision("r1", 1, plain(2))], lambda: [member(0), member(1)]).again is None


def test_pods_that_are_nobodys_are_taken_by_name() -> None:
    def orphan(name: str) -> Json:
        found = member(0)
        found["metadata"] = {**found["metadata"], "name": name, "uid": name, "ownerReferences": []}
        return found

    of = plain(1, status=status())
    look = Look(of, [revision("r1", 1, of)], lambda: [orphan("s-0"), orphan("t-0")])
    [(name, body)] = look.of("patch", "Pod")
    assert (name, body["metadata"]["ownerReferences"][0]["uid"]) == ("s-0", "s-uid")
    assert look.status["replicas"] == 1


def test_how_many_may_be_missing_is_measured_where_several_are_updated_at_once() -> None:
    of = plain(4, status=status(), updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}})
    pods = lambda: [member(0), member(1), member(2), member(3, age=0, conditions=[])]  # noqa: E731
    known = [revision("r1", 1, of)]
    off = Look(of, known, pods, **{UNAVAILABLE_GATE: False})
    assert (off.part._limits, off.part._unavailable) == ({}, {})
    look = Look(of, known, pods, **{UNAVAILABLE_GATE: True})
    key = ("ns", "s", "")
    assert look.part._limits == {key: 2}
    limits, unavailable = look.part.metrics[-2:]
    assert (limits._read(), limits.name) == ({key: 2}, "statefulset_controller_statefulset_max_unavailable")  # type: ignore[attr-defined]
    assert unavailable._read() == look.part._unavailable  # type: ignore[attr-defined]
    look.part._limits[("ns", "t", "")] = 1
    look.part.owner_deleted("ns/s")
    assert look.part._limits == {("ns", "t", ""): 1}


def test_a_status_is_written_even_when_a_pod_cannot_be_made() -> None:
    look = Look(plain(1), [], refuses={"create": (403, "Forbidden")})
    assert isinstance(look.error, StatusError)
    look = Look(plain(1), [revision("r1", 1, plain(1))], refuses={"create": (403, "Forbidden")})
    assert isinstance(look.error, StatusError)
    assert look.status["replicas"] == 0
    assert look.told.reasons == ["FailedCreate"]
