"""References in one pass: claims reserved for workloads, scales of the owners of pods, and slices of a service."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime.metrics import text
from controllers.endpoints.slices import Plan
from controllers.endpoints.slicewrites import SliceWriter
from controllers.resourceclaims.workload_references import GATE, build
from controllers.runtime.kinds import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Kind,
)
from controllers.workloads.common.scales import Scale, ScaleError, Scales
from tests.support import recording
from tests.support.objects import make_claim, make_metadata, make_pod
from tests.support.recording import RecordingClient

pytestmark = pytest.mark.integration

# --- claims that are reserved for a workload


def workload(kind: Kind, name: str = "w", uid: str = "w-uid", *conditions: tuple[str, str]) -> Json:
    status = {"conditions": [{"type": each, "status": status} for each, status in conditions]}
    return {"kind": kind.kind, "metadata": make_metadata(name, "ns", uid), "spec": {}, "status": status}


def at_scale(kind: Kind, wanted: int, **status: int) -> Json:
    """Return a workload of generation 2 with these replicas."""
    made = workload(kind)
    made["metadata"]["generation"] = 2
    return {**made, "spec": {"replicas": wanted}, "status": {"observedGeneration": 2, **status}}


def reference(kind: Kind, name: str = "w", uid: str = "w-uid") -> Json:
    return {"apiGroup": kind.group, "resource": kind.plural, "name": name, "uid": uid}


def claim(*users: Json, name: str = "c") -> Json:
    return make_claim(name, uid="c", allocation={"devices": {}}, reservedFor=list(users))


def pod(phase: str = "Running", claim: str = "c") -> Json:
    return make_pod("p", node="n", claims={"x": claim}, status={"phase": phase})


def build_references(*objects: Json | None, **more: Any) -> RecordingClient:
    return recording.build(build, RecordingClient(), *objects, gates={GATE: True}, **more)


J, D, S = (reference(kind) for kind in (JOBS, DEPLOYMENTS, STATEFUL_SETS))
OTHER = {"apiGroup": "example.com", "resource": "things", "name": "w", "uid": "other"}


@pytest.mark.parametrize(
    ("users", "known", "live", "left"),
    [
        ([J], [], [], []),
        ([D], [], [], []),
        ([S], [], [], []),
        ([OTHER], [], [], None),
        ([], [], [], None),
        ([OTHER, J], [], [], [OTHER]),
        ([J, reference(DEPLOYMENTS, "d", "d")], [workload(DEPLOYMENTS, "d", "d")], [],
         [reference(DEPLOYMENTS, "d", "d")]),
        ([J], [workload(JOBS)], [], None),
        ([J], [workload(JOBS, "w", "another")], [], []),
        ([J], [workload(JOBS, "w", "another")], [workload(JOBS)], None),
        ([J], [], [workload(JOBS)], None),
        ([J], [], [workload(JOBS, "w", "another")], []),
        ([J], [workload(JOBS, "w", "w-uid", ("Complete", "True"))], [], []),
        ([J], [workload(JOBS, "w", "w-uid", ("Suspended", "True"), ("Failed", "True"))], [], []),
        ([J], [workload(JOBS, "w", "w-uid", ("Complete", "False"), ("Suspended", "False"))], [], None),
        ([J], [workload(JOBS, "w", "w-uid", ("Suspended", "True"))], [], []),
        ([D], [workload(DEPLOYMENTS, "w", "w-uid", ("Failed", "True"))], [], None),
        ([J], [pod()], [], None),
        ([J], [pod("Succeeded")], [], []),
        ([J], [pod(claim="other")], [], []),
    ],
)  # fmt: skip
async def test_a_claim_is_released_once_its_workload_makes_no_more_pods_and_none_is_left(
    users: list[Json], known: list[Json], live: list[Json], left: list[Json] | None
) -> None:
    client = build_references(claim(*users), *known)
    client.there = {}
    writes = (await client.serve(*live).reconcile("ns/c")).writes
    assert [
        (verb, kind, "allocation" in body["status"], body["status"]["reservedFor"]) for verb, kind, body in writes
    ] == [("update/status", "ResourceClaim", True, users) for users in ([] if left is None else [left])]


@pytest.mark.parametrize("kind", [DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS, REPLICATION_CONTROLLERS])
async def test_a_workload_scaled_to_zero_gives_its_claim_back_once_its_controller_has_seen_that(kind: Kind) -> None:
    async def released(found: Json, *more: Json) -> bool:
        return bool((await build_references(claim(reference(kind)), found, *more).reconcile("ns/c")).writes)

    assert await released(at_scale(kind, 0))
    assert not await released(at_scale(kind, 0), pod())
    assert not await released(at_scale(kind, 0, observedGeneration=1))
    assert not await released(at_scale(kind, 0, replicas=1))
    assert not await released(at_scale(kind, 1))
    assert not await released(workload(kind)), "one replica by default"


async def test_an_event_names_each_consumer_that_no_controller_removes() -> None:
    group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "g"}
    node = {"resource": "nodes", "name": "n", "uid": "n"}
    own_pod = {"resource": "pods", "name": "p", "uid": "p"}
    client = build_references(claim(J, reference(DAEMON_SETS), OTHER, node, group, own_pod), pod())
    await client.reconcile("ns/c")
    await client.reconcile("ns/c")
    assert client.reasons == ["UnknownConsumer"] * 3
    assert client.events[0][2] == (
        'no controller removes things.example.com "w" from status.reservedFor; remove it when no pod uses the claim,'
        " or the devices stay allocated"
    )
    assert [message.split('"')[0].split()[-1] for _, _, message in client.events] == [
        "things.example.com", "nodes", "podgroups.scheduling.k8s.io",
    ]  # fmt: skip
    gates = {GATE: True, "GenericWorkload": True, "DRAWorkloadResourceClaims": True}
    with_groups = recording.build(build, RecordingClient(), claim(group), pod(), gates=gates)
    assert (await with_groups.reconcile("ns/c")).events == []


async def test_a_workload_is_gone_only_if_the_server_has_none() -> None:
    assert (await build_references(None).reconcile("ns/c")).writes == []
    refused = build_references(claim(J), refuses={"get": (500, "InternalError")})
    assert (await refused.reconcile("ns/c")).error is not None


@pytest.mark.parametrize(
    ("change", "queued"),
    [
        (claim(J), ["ns/c"]),
        (claim(OTHER), ["ns/c"]),
        (claim(OTHER, name="d"), ["ns/d"]),
        (claim(name="d"), []),
        (workload(JOBS), ["ns/c"]),
        (workload(JOBS, "v", "another"), []),
        (pod(), ["ns/c"]),
        (make_pod("q"), []),
    ],
)
async def test_a_claim_is_queued_when_it_its_workload_or_its_pods_change(change: Json, queued: list[str]) -> None:
    client = build_references().set_objects(claim(J))
    client.queued()
    assert client.set_objects(change).queued() == queued


async def test_without_the_gate_nothing_is_followed() -> None:
    client = recording.build(build, RecordingClient())
    assert not client.informers._informers
    assert client.component.idle


# --- scales


class ScaleClient(RecordingClient):
    """Serves widgets and their scale; an int is the code of a refusal."""

    def __init__(self, scale: Json | int, subresources: tuple[str, ...] = ("widgets/scale",)) -> None:
        super().__init__()
        self._scale, self._subresources, self.paths = scale, subresources, list[str]()

    async def request(self, method: str, path: str) -> Json:
        self.paths.append(path)
        if path == "/apis/example.com/v1":
            names = ("other", "widgets", *self._subresources)
            return {"resources": [{"name": name, "kind": "Scale" if "/" in name else name.title()[:6],
                                   "namespaced": True} for name in names]}  # fmt: skip
        if path.endswith("/scale"):
            if isinstance(self._scale, int):
                raise StatusError(self._scale, "NotFound" if self._scale == 404 else "Forbidden", "refused")
            return self._scale
        raise StatusError(404, "NotFound", path)

    async def scale_of(self, about: Json, *known: Json) -> Scale | None:
        """Return the scale of an owner, with these objects in informers."""
        informers = RecordingClient().set_objects(*known).informers
        return await Scales(self, informers).of(about, "ns")  # type: ignore[arg-type]


def owner(kind: str, name: str, uid: str = "", api_version: str = "apps/v1") -> Json:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid or name, "controller": True}


def scaled(kind: Kind, name: str, replicas: int | None, *owners: Json, uid: str = "") -> Json:
    metadata = make_metadata(name, "ns", uid or name, ownerReferences=owners)
    return {"kind": kind.kind, "metadata": metadata, "spec": {} if replicas is None else {"replicas": replicas}}


async def test_a_known_owner_has_its_replicas_and_a_replica_set_those_of_its_deployment() -> None:
    client = ScaleClient(404)
    for kind, api_version in ((REPLICATION_CONTROLLERS, "v1"), (STATEFUL_SETS, "apps/v1"), (DEPLOYMENTS, "apps/v1"),
                              (REPLICA_SETS, "apps/v1")):  # fmt: skip
        about = owner(kind.kind, "a", api_version=api_version)
        assert await client.scale_of(about, scaled(kind, "a", 3)) == Scale("a", 3)
        assert await client.scale_of(about, scaled(kind, "a", None)) == Scale("a", 0)
    rs = owner("ReplicaSet", "rs")
    under = scaled(REPLICA_SETS, "rs", 1, owner("Deployment", "d"))
    assert await client.scale_of(rs, under, scaled(DEPLOYMENTS, "d", 5)) == Scale("d", 5)
    other = scaled(REPLICA_SETS, "rs", 1, owner("Rollout", "d"))
    assert await client.scale_of(rs, other, scaled(DEPLOYMENTS, "d", 5)) == Scale("rs", 1)
    deployment = scaled(DEPLOYMENTS, "d", 2, owner("Deployment", "above"))
    assert await client.scale_of(owner("Deployment", "d"), deployment) == Scale("d", 2)
    assert client.paths == []


async def test_the_scale_of_an_unknown_owner_is_requested() -> None:
    about = owner("Widget", "w", "u", "example.com/v1")
    client = ScaleClient({"metadata": {"uid": "u"}, "spec": {"replicas": 4}})
    assert await client.scale_of(about) == Scale("u", 4)
    assert client.paths == ["/apis/example.com/v1", "/apis/example.com/v1/namespaces/ns/widgets/w/scale"]
    for answer, scale in (
        ({"metadata": {"uid": "u"}}, Scale("u", 0)),
        ({"metadata": {"uid": "another"}, "spec": {"replicas": 4}}, None),
        ({"metadata": {}, "spec": {"replicas": 4}}, None),
        (404, None),
    ):
        assert await ScaleClient(answer).scale_of(about) == scale
    with pytest.raises(ScaleError, match=r"widgets\.example\.com does not implement the scale subresource"):
        await ScaleClient(404, ()).scale_of(about)
    with pytest.raises(StatusError):
        await ScaleClient(403).scale_of(about)
    another = scaled(STATEFUL_SETS, "a", 3, uid="another")
    for about, known, message in (
        (owner("Gadget", "w", "u", "example.com/v1"), (), r'no matches for kind "Gadget" in version "example\.com/v1"'),
        (owner("ReplicaSet", "a", "", "extensions/v1"), (scaled(REPLICA_SETS, "a", 3),),
         'no matches for kind "ReplicaSet" in version "extensions/v1"'),
        (owner("StatefulSet", "a"), (), "no matches"),
        (owner("StatefulSet", "a"), (another,), "no matches"),
    ):  # fmt: skip
        with pytest.raises(ScaleError, match=message):
            await client.scale_of(about, *known)


# --- slices


class SliceWrites(RecordingClient):
    """Records the writes of a plan: two new slices, a changed one and two that go."""

    async def write(self, **how: Any) -> SliceWrites:
        a, b, c, d, e = ({"metadata": {"name": name, "namespace": "ns"}} for name in "abcde")
        self.written: list[str] = []
        self.writer = SliceWriter(self, "sub")  # type: ignore[arg-type]
        record = lambda obj: self.written.append(obj["metadata"]["name"])  # noqa: E731
        await self.run(self.writer.write(Plan([a, b], [c], [d, e]), "ns/service", record, **how))
        return self

    @property
    def counts(self) -> list[int]:
        return [self.writer.changes.value(how) for how in ("create", "update", "delete")]


async def write(*, refuses: Any = None, **how: Any) -> SliceWrites:
    client = SliceWrites()
    client.refuses = refuses or {}
    return await client.write(**how)


async def test_slices_are_written_as_planned_reported_and_counted() -> None:
    done = await write()
    assert done.verbs == ["create", "create", "update", "delete", "delete"]
    assert [name for name, _ in done.bodies("delete")] == ["ns/d", "ns/e"]
    assert (done.written, done.counts, done.error) == (["a", "b", "c"], [2, 1, 2], None)
    assert 'sub_changes{operation="update"} 1\n' in text([done.writer.changes])
    without = await write(create=False)
    assert (without.written, without.counts) == (["c"], [0, 1, 2])


@pytest.mark.parametrize(
    ("verb", "message", "counts"),
    [("create", "failed to create EndpointSlice for ns/service: refused", [0, 0, 0]),
     ("update", "failed to update c EndpointSlice for ns/service: refused", [2, 0, 0]),
     ("delete", "failed to delete d EndpointSlice for ns/service: refused", [2, 1, 0])],
)  # fmt: skip
async def test_a_write_that_fails_names_the_service_of_the_slice(verb: str, message: str, counts: list[int]) -> None:
    failed = await write(refuses={verb: (403, "Forbidden", {"kind": "x"})})
    assert isinstance(failed.error, StatusError)
    assert (str(failed.error), failed.error.code, failed.error.reason) == (message, 403, "Forbidden")
    assert (failed.error.details, failed.counts) == ({"kind": "x"}, counts)


async def test_slices_that_are_gone_need_no_deletion_and_a_namespace_that_ends_takes_none() -> None:
    gone = await write(refuses={"delete": (404, "NotFound")})
    assert (gone.error, gone.counts) == (None, [2, 1, 0])
    ending = await write(refuses={"create": (403, "Forbidden", {"causes": [{"reason": "NamespaceTerminating"}]})})
    assert (ending.error, ending.verbs) == (None, ["create"])
