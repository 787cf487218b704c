"""One look at a namespace that is being deleted, at a service's Endpoints, and at the slices of drivers that are gone."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.cleanup import namespaces as module
from controllers.cleanup.namespaces import build
from controllers.endpoints.legacy import build as endpoints
from controllers.kubelet.grpc.wiping import SliceWiper
from controllers.options.options import Options
from controllers.runtime.kinds import CONFIG_MAPS, ENDPOINTS, EVENTS, JOBS, NAMESPACES, NODES, PODS, SERVICES, Kind
from controllers.runtime.transport import TransportError
from tests.support.recording import FakeRecorder, RecordingClient, make_informers
from tests.support.virtual import run

pytestmark = pytest.mark.integration

# --- namespaces


def namespace(*, going: bool = True, finalizers: tuple[str, ...] = ("kubernetes",), **status: Any) -> Json:
    metadata = {"name": "ns", "uid": "ns"} | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {})
    return {"metadata": metadata, "spec": {"finalizers": list(finalizers)}, "status": status}


class Server(RecordingClient):
    """`held`: objects by plural; `stubborn` ones stay when their collection is deleted; `fails` names plurals."""

    def __init__(self, **held: list[Json]) -> None:
        super().__init__()
        self.held, self.stubborn, self.fails = held, set[str](), set[str]()

    async def list(self, kind: Kind, namespace: str, limit: int = 0) -> Json:
        assert namespace == "ns"
        if kind.plural in self.fails:
            raise StatusError(500, "InternalError", f"no {kind.plural}")
        return {"items": self.held.get(kind.plural, [])}

    async def delete_collection(self, kind: Kind, namespace: str, propagation: str) -> None:
        self.writes.append(("deletecollection", kind.plural, (namespace, propagation)))
        if kind.plural not in self.stubborn:
            self.held[kind.plural] = []


class Ended:
    """One look at the namespace; the kinds of the server are pods, config maps, jobs, nodes and events twice."""

    def __init__(self, found: Json | None, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        async def kinds(_: Any, verbs: tuple[str, ...]) -> list[Kind]:
            assert verbs == ("list", "deletecollection")
            return [PODS, CONFIG_MAPS, JOBS, NODES, EVENTS]

        monkeypatch.setattr(module, "served_kinds", kinds)
        self.server, self.again, self.error = server, None, None
        server._answers = {"Namespace": lambda body: {**body, "answered": True}}

        async def scenario() -> None:
            part = build(server, make_informers(NAMESPACES, *([found] if found else [])), Options())  # type: ignore[arg-type]
            try:
                self.again = await part.reconcile("ns")
            except StatusError as error:
                self.error = error

        run(scenario)

    again: timedelta | None
    error: StatusError | None

    @property
    def emptied(self) -> list[str]:
        return [what for verb, what, _ in self.server.writes if verb == "deletecollection"]

    @property
    def said(self) -> dict[str, str]:
        """The conditions that are True, with their messages."""
        found = [body for verb, _, body in self.server.writes if verb == "update/status"]
        return {c["type"].removeprefix("Namespace"): c["message"]
                for body in found for c in body["status"]["conditions"] if c["status"] == "True"}  # fmt: skip

    @property
    def finalized(self) -> list[list[str]]:
        return [body["spec"]["finalizers"] for verb, _, body in self.server.writes if verb == "update/finalize"]


OBJECT: Json = {"metadata": {"name": "x"}}


def test_a_namespace_that_is_deleted_is_emptied_pods_first_and_then_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    full = Server(pods=[OBJECT], configmaps=[OBJECT], nodes=[OBJECT], events=[OBJECT])
    done = Ended(namespace(finalizers=("kubernetes", "mine")), full, monkeypatch)
    assert (done.emptied, done.again, done.finalized) == (["pods", "configmaps"], None, [["mine"]])
    assert full.writes[0][2] == ("ns", "Background")
    assert done.said == {}
    assert [body.get("answered") for verb, _, body in full.writes if verb == "update/finalize"] == [True]
    for found in (None, namespace(going=False), namespace(finalizers=("mine",)), namespace(finalizers=())):
        server = Server(pods=[OBJECT])
        assert (Ended(found, server, monkeypatch).again, server.writes) == (None, [])


def test_while_pods_are_there_nothing_else_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    going = {"metadata": {"name": "x", "deletionTimestamp": "x"}}
    server = Server(pods=[going], configmaps=[OBJECT])
    server.stubborn = {"pods"}
    waits = Ended(namespace(), server, monkeypatch)
    assert (waits.emptied, waits.finalized, waits.said) == (["pods"], [], {})
    assert waits.again == module._RETRY


@pytest.mark.parametrize(
    ("left", "failures"),
    [
        ({"metadata": {"name": "x", "finalizers": ["f"]}}, 0),
        ({"metadata": {"name": "x", "deletionTimestamp": "x"}}, 0),
        ({"metadata": {"name": "x"}}, 1),
    ],
)
def test_what_stays_is_said_and_looked_at_again(left: Json, failures: int, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(jobs=[left])
    server.stubborn = {"jobs"}
    waits = Ended(namespace(), server, monkeypatch)
    assert (waits.again, waits.finalized) == (module._RETRY, [])
    assert "jobs.batch has 1 resource instances" in waits.said["ContentRemaining"]
    assert ("FinalizersRemaining" in waits.said) is ("finalizers" in left["metadata"])
    text = "unexpected items still remain in namespace: ns for gvr: batch/v1, Resource=jobs"
    assert (text in waits.said.get("DeletionContentFailure", "")) is bool(failures)


def test_a_kind_that_cannot_be_listed_is_said_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for plural, emptied in (("configmaps", ["jobs"]), ("pods", [])):
        server = Server(jobs=[OBJECT])
        server.fails = {plural}
        waits = Ended(namespace(), server, monkeypatch)
        assert (waits.emptied, waits.again, waits.finalized) == (emptied, module._RETRY, [])
        assert f"no {plural}" in waits.said["DeletionContentFailure"]


def test_what_is_said_of_a_namespace_already_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Server()
    Ended(namespace(), first, monkeypatch)
    [conditions] = [body["status"]["conditions"] for verb, _, body in first.writes if verb == "update/status"]
    again = Server()
    Ended(namespace(conditions=conditions), again, monkeypatch)
    assert again.verbs == ["update/finalize"]


@pytest.mark.parametrize(
    ("verb", "refusal", "fails"),
    [("update/status", (404, "NotFound"), False), ("update/status", (409, "Conflict"), False),
     ("update/status", (403, "Forbidden"), True), ("update/finalize", (404, "NotFound"), False),
     ("update/finalize", (409, "Conflict"), True)],
)  # fmt: skip
def test_a_namespace_that_is_gone_or_another_by_now_needs_no_word(
    verb: str, refusal: tuple[int, str], fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server()
    server.refuses = {verb: refusal}
    done = Ended(namespace(), server, monkeypatch)
    assert (done.error is not None) is fails
    assert ("update/finalize" in server.verbs) is (verb == "update/finalize" or not fails)


# --- Endpoints

SELECTED: Json = {
    "metadata": {"name": "s", "namespace": "ns", "uid": "s", "creationTimestamp": "2026-01-01T00:00:00Z",
                 "labels": {"a": "b", "service.kubernetes.io/headless": ""}},
    "spec": {"selector": {"app": "x"}, "clusterIP": "10.0.0.1", "ports": [{"port": 80, "protocol": "TCP"}]},
}  # fmt: skip
POD: Json = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "p", "labels": {"app": "x"},
                 "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {"nodeName": "n"},
    "status": {"phase": "Running", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}], "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
}  # fmt: skip


#: Since when Endpoints have had to be as they are.
SINCE = {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"}


class Kept:
    """One look at the service's Endpoints."""

    def __init__(self, service: Json | None, *pods: Json, current: Json | None = None, **refuses: Any) -> None:
        self.client, self.told, self.error = RecordingClient(), FakeRecorder(), None
        self.client.refuses = {verb: given[:2] for verb, given in refuses.items()}
        details = next((given[2] for given in refuses.values() if len(given) > 2), None)
        note = self.client._record

        def refusing(verb: str, kind: Kind, what: Any) -> Any:
            try:
                return note(verb, kind, what)
            except StatusError as error:
                raise StatusError(error.code, error.reason, str(error), details) from None

        self.client._record = refusing  # type: ignore[method-assign]

        async def scenario() -> None:
            informers = make_informers(SERVICES, *([service] if service else []))
            make_informers(PODS, *pods, informers=informers)
            make_informers(ENDPOINTS, *([current] if current else []), informers=informers)
            part = endpoints(self.client, informers, Options())  # type: ignore[arg-type]
            part.recorder = self.told  # type: ignore[assignment]
            try:
                await part.reconcile("ns/s")
            except StatusError as error:
                self.error = error

        run(scenario)

    error: StatusError | None


def test_endpoints_are_made_of_a_services_pods_and_left_alone_when_they_are_so() -> None:
    [(verb, kind, made)] = Kept(SELECTED, POD).client.writes
    assert (verb, kind, made["metadata"]["name"], made["metadata"]["annotations"]) == (
        "create",
        "Endpoints",
        "s",
        SINCE,
    )
    assert made["metadata"]["labels"] == {"a": "b", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
    [subset] = made["subsets"]
    assert ([each["ip"] for each in subset["addresses"]], subset["ports"][0]["port"]) == (["10.1.0.1"], 80)
    assert Kept(SELECTED, POD, current=made).client.writes == []
    over: Json = {"annotations": {"endpoints.kubernetes.io/over-capacity": "truncated"}}
    unlabelled: Json = {"labels": {}}
    for change in (over, unlabelled):
        other = {**made, "metadata": {**made["metadata"], **change}}
        [(verb, _, mended)] = Kept(SELECTED, POD, current=other).client.writes
        assert (verb, mended["metadata"]) == ("update", made["metadata"])
    mine = {**made, "metadata": {**made["metadata"], "annotations": {"mine": "1"}}, "subsets": []}
    [(_, _, mended)] = Kept(SELECTED, POD, current=mine).client.writes
    assert (mended["metadata"]["annotations"], mended["subsets"]) == ({"mine": "1", **SINCE}, made["subsets"])
    headless = {**SELECTED, "spec": {**SELECTED["spec"], "clusterIP": "None"}}
    assert Kept(headless, POD).client.writes[0][2]["metadata"]["labels"]["service.kubernetes.io/headless"] == ""
    without = {**SELECTED, "spec": {"clusterIP": "10.0.0.1"}}
    assert Kept(without, POD).client.writes == []


def test_endpoints_go_with_their_service() -> None:
    current = {"metadata": {"name": "s", "namespace": "ns", "uid": "e"}, "subsets": []}
    assert Kept(None, current=current).client.writes == [("delete", "Endpoints", ("ns/s", {}))]
    assert Kept(None).client.writes == []
    assert Kept(None, current=current, delete=(404, "NotFound")).error is None
    assert Kept(None, current=current, delete=(403, "Forbidden")).error is not None


def test_endpoints_that_cannot_be_written_are_told_but_in_a_namespace_that_ends() -> None:
    current = {"metadata": {"name": "s", "namespace": "ns", "uid": "e"}, "subsets": []}
    failed = Kept(SELECTED, POD, create=(403, "Forbidden"))
    said = "Failed to create endpoint for service ns/s: refused"
    assert (failed.told.events, failed.error is not None) == ([("Warning", "FailedToCreateEndpoint", said)], True)
    failed = Kept(SELECTED, POD, current=current, update=(409, "Conflict"))
    assert failed.told.events == [("Warning", "FailedToUpdateEndpoint", "Failed to update endpoint ns/s: refused")]
    ending = Kept(SELECTED, POD, create=(403, "Forbidden", {"causes": [{"reason": "NamespaceTerminating"}]}))
    assert (ending.told.events, ending.error) == ([], None)


# --- slices of drivers that are gone


class Slices(RecordingClient):
    """`broken`: how often it fails first; `node`: whether the node is there."""

    def __init__(self, broken: int = 0, node: bool = True, reason: str = "InternalError") -> None:
        super().__init__()
        self.broken, self.selectors, self.reason = broken, list[str](), reason
        self.times: list[float] = []
        if node:
            self.there["Node", "n"] = {}

    async def delete_collection(self, kind: Kind, field_selector: str) -> None:
        assert kind.plural == "resourceslices"
        self.times.append(asyncio.get_running_loop().time())
        if self.broken:
            self.broken -= 1
            raise TransportError("cut") if self.broken % 2 else StatusError(500, self.reason, "refused")
        self.selectors.append(field_selector)


def wiped(client: Slices, seconds: float, *notes: tuple[float, bool], start: bool = False, jitter: float = 0) -> None:
    """What happens in so many seconds; `notes`: when the driver `d` came or went."""

    async def scenario() -> None:
        wiper = SliceWiper(client, "n", 30, lambda: jitter)  # type: ignore[arg-type]
        if start:
            wiper.start()
        began = asyncio.get_running_loop().time()
        for at, usable in notes:
            await asyncio.sleep(began + at - asyncio.get_running_loop().time())
            wiper.set_connected("d", usable)
        await asyncio.sleep(began + seconds - asyncio.get_running_loop().time())
        await wiper.close()
        await asyncio.sleep(1000)

    run(scenario)


MINE = "spec.driver=d,spec.nodeName=n"


def test_all_slices_of_a_node_go_at_the_start_of_its_kubelet() -> None:
    client = Slices()
    wiped(client, 0.1, start=True)
    assert client.selectors == ["spec.nodeName=n"]


@pytest.mark.parametrize(
    ("notes", "seconds", "removed"),
    [
        ([(0, False)], 29, []),
        ([(0, False)], 31, [MINE]),
        ([(0, False), (10, True)], 100, []),
        ([(0, False), (20, False)], 31, [MINE]),
        ([(0, False), (20, False)], 100, [MINE]),
        ([(0, False), (10, True), (20, False)], 49, []),
        ([(0, False), (10, True), (20, False)], 51, [MINE]),
        ([(0, True)], 100, []),
        ([(0, False), (40, False)], 100, [MINE, MINE]),
    ],
)
def test_a_drivers_slices_go_when_it_was_away_for_a_while(notes: Any, seconds: float, removed: list[str]) -> None:
    client = Slices()
    wiped(client, seconds, *notes)
    assert client.selectors == removed


def test_a_removal_that_fails_is_tried_again_after_pauses_that_double_up_to_a_limit() -> None:
    client = Slices(broken=4)
    wiped(client, 100, start=True)
    assert client.selectors == ["spec.nodeName=n"]
    assert [round(b - a) for a, b in zip(client.times, client.times[1:], strict=False)] == [1, 2, 4, 8]
    late = Slices(broken=2)
    wiped(late, 100, start=True, jitter=1)
    assert [round(b - a, 1) for a, b in zip(late.times, late.times[1:], strict=False)] == [1.2, 2.4]
    never = Slices(broken=1000)
    wiped(never, 5000, start=True)
    assert [round(b - a) for a, b in zip(never.times, never.times[1:], strict=False)] == [2**n for n in range(8)]
    gone = Slices(broken=1, reason="NotFound")
    wiped(gone, 100, start=True)
    assert len(gone.times) == 1, "nothing is served that could be removed"
    unknown = Slices(node=False)
    wiped(unknown, 100, start=True)
    assert unknown.times == [], "without its Node a kubelet may remove nothing"
