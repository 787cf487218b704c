"""What refers to others is followed or let go, without a server: claims reserved for workloads, the scales of pods'
owners, and the slices of a service that are written.
"""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime.metrics import text
from controllers.endpoints.slices import Plan
from controllers.endpoints.slicewrites import SliceWriter
from controllers.options.options import Options
from controllers.resourceclaims.workload_references import GATE, build
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import (
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_CLAIMS,
    STATEFUL_SETS,
    Kind,
    key_of,
)
from controllers.runtime.transport import NoTransport
from controllers.workloads.common.scales import Scale, ScaleError, Scales
from tests.support.recording import RecordingClient, make_informers
from tests.support.virtual import run

pytestmark = pytest.mark.integration

# --- claims that are reserved for a workload


def workload(kind: Kind, name: str = "w", uid: str = "w-uid", *conditions: tuple[str, str]) -> Json:
    status = {"conditions": [{"type": each, "status": status} for each, status in conditions]}
    return {"kind": kind.kind, "metadata": {"name": name, "namespace": "ns", "uid": uid}, "status": status}


def reference(kind: Kind, name: str = "w", uid: str = "w-uid") -> Json:
    return {"apiGroup": kind.group, "resource": kind.plural, "name": name, "uid": uid}


def claim(*users: Json) -> Json:
    status = {"allocation": {"devices": {}}, "reservedFor": list(users)}
    return {"kind": "ResourceClaim", "metadata": {"name": "c", "namespace": "ns", "uid": "c"}, "status": status}


def pod(phase: str = "Running", claim: str = "c") -> Json:
    spec = {"nodeName": "n", "resourceClaims": [{"name": "x", "resourceClaimName": claim}]}
    return {"metadata": {"name": "p", "namespace": "ns", "uid": "p"}, "spec": spec, "status": {"phase": phase}}


class Looked:
    """One look at the claim `c`, with what informers show and what the server alone has."""

    def __init__(self, found: Json | None, shown: Any = (), live: Any = (), refuses: Any = None) -> None:
        self.client = RecordingClient()
        self.client.refuses = refuses or {}
        self.queued: list[str] = []
        for kind, obj in live:
            self.client.there[kind.kind, obj["metadata"]["name"]] = obj

        async def scenario() -> None:
            informers = Informers(Client(NoTransport()))
            part = build(self.client, informers, Options(gates={GATE: True}))  # type: ignore[arg-type]
            for kind, obj in ([(RESOURCE_CLAIMS, found)] if found is not None else []) + list(shown):
                part._controller.queue._order.clear()
                part._controller.queue._dirty.clear()
                informers.of(kind).set_object(key_of(obj), obj)
            self.queued = list(part._controller.queue._order)
            await part.reconcile("ns/c")

        run(scenario)

    @property
    def left(self) -> list[Json] | None:
        """The users that are written; None where nothing is."""
        if not self.client.writes:
            return None
        [(verb, kind, body)] = self.client.writes
        assert (verb, kind, "allocation" in body["status"]) == ("update/status", "ResourceClaim", True)
        users: list[Json] = body["status"]["reservedFor"]
        return users


J, D, S = (reference(kind) for kind in (JOBS, DEPLOYMENTS, STATEFUL_SETS))
OTHER = {"apiGroup": "example.com", "resource": "things", "name": "w", "uid": "other"}


@pytest.mark.parametrize(
    ("users", "shown", "live", "left"),
    [
        ([J], [], [], []),
        ([D], [], [], []),
        ([S], [], [], []),
        ([OTHER], [], [], None),
        ([], [], [], None),
        ([OTHER, J], [], [], [OTHER]),
        ([J, reference(DEPLOYMENTS, "d", "d")], [(DEPLOYMENTS, workload(DEPLOYMENTS, "d", "d"))], [],
         [reference(DEPLOYMENTS, "d", "d")]),
        ([J], [(JOBS, workload(JOBS))], [], None),
        ([J], [(JOBS, workload(JOBS, "w", "another"))], [], []),
        ([J], [(JOBS, workload(JOBS, "w", "another"))], [(JOBS, workload(JOBS))], None),
        ([J], [], [(JOBS, workload(JOBS))], None),
        ([J], [], [(JOBS, workload(JOBS, "w", "another"))], []),
        ([J], [(JOBS, workload(JOBS, "w", "w-uid", ("Complete", "True")))], [], []),
        ([J], [(JOBS, workload(JOBS, "w", "w-uid", ("Suspended", "True"), ("Failed", "True")))], [], []),
        ([J], [(JOBS, workload(JOBS, "w", "w-uid", ("Complete", "False"), ("Suspended", "True")))], [], None),
        ([D], [(DEPLOYMENTS, workload(DEPLOYMENTS, "w", "w-uid", ("Failed", "True")))], [], None),
        ([J], [(PODS, pod())], [], None),
        ([J], [(PODS, pod("Succeeded"))], [], []),
        ([J], [(PODS, pod(claim="other"))], [], []),
    ],
)  # fmt: skip
def test_a_claim_is_let_go_once_its_workload_makes_no_more_pods_and_none_is_left(
    users: list[Json], shown: Any, live: Any, left: list[Json] | None
) -> None:
    assert Looked(claim(*users), shown, live).left == left


def test_that_a_workload_is_gone_the_server_has_to_say() -> None:
    assert Looked(None).left is None
    with pytest.raises(StatusError):
        Looked(claim(J), refuses={"get": (500, "InternalError")})


@pytest.mark.parametrize(
    ("change", "queued"),
    [
        ((RESOURCE_CLAIMS, claim(J)), ["ns/c"]),
        ((RESOURCE_CLAIMS, claim(OTHER)), ["ns/c"]),
        ((RESOURCE_CLAIMS, {**claim(OTHER), "metadata": {"name": "d", "namespace": "ns"}}), []),
        ((JOBS, workload(JOBS)), ["ns/c"]),
        ((JOBS, workload(JOBS, "v", "another")), []),
        ((PODS, pod()), ["ns/c"]),
        ((PODS, {"metadata": {"name": "q", "namespace": "ns", "uid": "q"}, "spec": {}}), []),
    ],
)
def test_a_claim_is_looked_at_when_it_its_workload_or_its_pods_change(change: Any, queued: list[str]) -> None:
    assert Looked(claim(J), [change]).queued == queued


async def test_without_the_gate_nothing_is_followed() -> None:
    informers = Informers(Client(NoTransport()))
    part = build(RecordingClient(), informers, Options())  # type: ignore[arg-type]
    assert not informers._informers
    assert part.idle


# --- scales


class Server(RecordingClient):
    """Serves widgets, and answers what is asked of them; an int is the code of a refusal."""

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


def owner(kind: str, name: str, uid: str = "", api_version: str = "apps/v1") -> Json:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid or name, "controller": True}


def scaled(name: str, replicas: int | None, *owners: Json, uid: str = "") -> Json:
    metadata = {"name": name, "namespace": "ns", "uid": uid or name, "ownerReferences": list(owners)}
    return {"metadata": metadata, "spec": {} if replicas is None else {"replicas": replicas}}


def asked(about: Json, server: Server, *shown: tuple[Kind, Json]) -> Scale | None:
    async def scenario() -> Scale | None:
        informers = Informers(Client(NoTransport()))
        for kind, obj in shown:
            make_informers(kind, obj, informers=informers)
        return await Scales(server, informers).of(about, "ns")  # type: ignore[arg-type]

    return run(scenario)


def test_a_known_owner_says_how_many_it_wants_and_a_deployment_for_its_replica_sets() -> None:
    nobody = Server(404)
    for kind, api_version in ((REPLICATION_CONTROLLERS, "v1"), (STATEFUL_SETS, "apps/v1"), (DEPLOYMENTS, "apps/v1"),
                              (REPLICA_SETS, "apps/v1")):  # fmt: skip
        about = owner(kind.kind, "a", api_version=api_version)
        assert asked(about, nobody, (kind, scaled("a", 3))) == Scale("a", 3)
        assert asked(about, nobody, (kind, scaled("a", None))) == Scale("a", 0)
    rs = owner("ReplicaSet", "rs")
    under = (REPLICA_SETS, scaled("rs", 1, owner("Deployment", "d")))
    assert asked(rs, nobody, under, (DEPLOYMENTS, scaled("d", 5))) == Scale("d", 5)
    other = (REPLICA_SETS, scaled("rs", 1, owner("Rollout", "d")))
    assert asked(rs, nobody, other, (DEPLOYMENTS, scaled("d", 5))) == Scale("rs", 1)
    deployment = (DEPLOYMENTS, scaled("d", 2, owner("Deployment", "above")))
    assert asked(owner("Deployment", "d"), nobody, deployment) == Scale("d", 2)
    assert nobody.paths == []


def test_what_is_not_known_is_asked_for_its_scale() -> None:
    about = owner("Widget", "w", "u", "example.com/v1")
    server = Server({"metadata": {"uid": "u"}, "spec": {"replicas": 4}})
    assert asked(about, server) == Scale("u", 4)
    assert server.paths == ["/apis/example.com/v1", "/apis/example.com/v1/namespaces/ns/widgets/w/scale"]
    assert asked(about, Server({"metadata": {"uid": "u"}})) == Scale("u", 0)
    assert asked(about, Server({"metadata": {"uid": "another"}, "spec": {"replicas": 4}})) is None
    assert asked(about, Server({"metadata": {}, "spec": {"replicas": 4}})) is None
    assert asked(about, Server(404)) is None, "it is gone"
    with pytest.raises(ScaleError, match=r"widgets\.example\.com does not implement the scale subresource"):
        asked(about, Server(404, ()))
    with pytest.raises(StatusError):
        asked(about, Server(403))
    with pytest.raises(ScaleError, match=r'no matches for kind "Gadget" in version "example\.com/v1"'):
        asked(owner("Gadget", "w", "u", "example.com/v1"), server)
    with pytest.raises(ScaleError, match='no matches for kind "ReplicaSet" in version "extensions/v1"'):
        asked(owner("ReplicaSet", "a", "", "extensions/v1"), server, (REPLICA_SETS, scaled("a", 3)))
    for shown in ((), ((STATEFUL_SETS, scaled("a", 3, uid="another")),)):
        with pytest.raises(ScaleError, match="no matches"):
            asked(owner("StatefulSet", "a"), server, *shown)


# --- slices


def slice_named(name: str) -> Json:
    return {"metadata": {"name": name, "namespace": "ns"}}


class Written:
    def __init__(self, refuses: Any = None, details: Json | None = None, **how: Any) -> None:
        self.client, self.wrote = RecordingClient(), list[str]()
        self.client.refuses = refuses or {}
        self.error: StatusError | None = None
        self.writer = SliceWriter(self.client, "sub")  # type: ignore[arg-type]
        plan = Plan([slice_named("a"), slice_named("b")], [slice_named("c")], [slice_named("d"), slice_named("e")])
        refuse = self.client._record

        def note(verb: str, kind: Kind, what: Any) -> Any:
            try:
                return refuse(verb, kind, what)
            except StatusError as error:
                raise StatusError(error.code, error.reason, str(error), details) from None

        self.client._record = note  # type: ignore[method-assign]

        async def scenario() -> None:
            try:
                await self.writer.write(
                    plan, "ns/service", lambda obj: self.wrote.append(obj["metadata"]["name"]), **how
                )
            except StatusError as error:
                self.error = error

        run(scenario)

    @property
    def counts(self) -> list[int]:
        return [self.writer.changes.value(how) for how in ("create", "update", "delete")]


def test_slices_are_written_as_planned_told_and_counted() -> None:
    done = Written()
    assert done.client.verbs == ["create", "create", "update", "delete", "delete"]
    assert [what[0] for verb, _, what in done.client.writes if verb == "delete"] == ["ns/d", "ns/e"]
    assert (done.wrote, done.counts, done.error) == (["a", "b", "c"], [2, 1, 2], None)
    assert 'sub_changes{operation="update"} 1\n' in text([done.writer.changes])
    without = Written(create=False)
    assert (without.wrote, without.counts) == (["c"], [0, 1, 2])


@pytest.mark.parametrize(
    ("verb", "said", "counts"),
    [("create", "failed to create EndpointSlice for ns/service: refused", [0, 0, 0]),
     ("update", "failed to update c EndpointSlice for ns/service: refused", [2, 0, 0]),
     ("delete", "failed to delete d EndpointSlice for ns/service: refused", [2, 1, 0])],
)  # fmt: skip
def test_a_write_that_fails_says_whose_slice_it_is(verb: str, said: str, counts: list[int]) -> None:
    failed = Written({verb: (403, "Forbidden")}, {"kind": "x"})
    assert failed.error is not None
    assert (str(failed.error), failed.error.code, failed.error.reason) == (said, 403, "Forbidden")
    assert (failed.error.details, failed.counts) == ({"kind": "x"}, counts)


def test_slices_that_are_gone_need_no_deletion_and_a_namespace_that_ends_takes_none() -> None:
    gone = Written({"delete": (404, "NotFound")})
    assert (gone.error, gone.counts) == (None, [2, 1, 0])
    ending = Written({"create": (403, "Forbidden")}, {"causes": [{"reason": "NamespaceTerminating"}]})
    assert (ending.error, ending.client.verbs) == (None, ["create"])
