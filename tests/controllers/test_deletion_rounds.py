"""One pass over a namespace that is being deleted and over the Endpoints of a service; slices of drivers that are gone."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.cleanup import namespaces
from controllers.endpoints.legacy import build as endpoints
from controllers.kubelet.grpc.wiping import SliceWiper
from controllers.runtime.kinds import CONFIG_MAPS, EVENTS, JOBS, NODES, PODS, Kind
from controllers.runtime.transport import TransportError
from tests.support.objects import make_metadata, make_pod
from tests.support.recording import RecordingClient, build, reconcile_once

pytestmark = pytest.mark.integration

# --- namespaces


def namespace(
    *, finalizers: tuple[str, ...] = ("kubernetes",), deleted: str = "2026-01-01T00:00:00Z", **status: Any
) -> Json:
    metadata = make_metadata("ns", deletionTimestamp=deleted)
    return {"kind": "Namespace", "metadata": metadata, "spec": {"finalizers": list(finalizers)}, "status": status}


class NamespaceClient(RecordingClient):
    """Serves `objects` by plural. `stubborn` ones outlive the deletion of their collection; `fails` names plurals."""

    def __init__(self, **objects: list[Json]) -> None:
        super().__init__({"Namespace": lambda body: {**body, "answered": True}})
        self.objects, self.stubborn, self.fails = objects, set[str](), set[str]()

    async def delete_collection(self, kind: Kind, namespace: str, propagation: str) -> None:
        self.writes.append(("deletecollection", kind.plural, (namespace, propagation)))
        if kind.plural not in self.stubborn:
            self.objects[kind.plural] = []

    @property
    def emptied(self) -> list[str]:
        return [plural for verb, plural, _ in self.writes if verb == "deletecollection"]

    @property
    def true_conditions(self) -> dict[str, str]:
        """The messages of the conditions that were written as True."""
        conditions = [each for status in self.statuses for each in status["conditions"] if each["status"] == "True"]
        return {each["type"].removeprefix("Namespace"): each["message"] for each in conditions}

    @property
    def finalized(self) -> list[list[str]]:
        return [body["spec"]["finalizers"] for body in self.bodies("update/finalize")]

    async def end(self, found: Json | None) -> NamespaceClient:
        """Reconcile the namespace."""
        return await build(namespaces.build, self, found).reconcile("ns")

    async def list(self, kind: Kind, namespace: str, limit: int = 0) -> Json:
        assert namespace == "ns"
        if kind.plural in self.fails:
            raise StatusError(500, "InternalError", f"no {kind.plural}")
        return {"items": self.objects.get(kind.plural, [])}


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the server have pods, config maps, jobs, nodes and events."""

    async def served_kinds(_: Any, verbs: tuple[str, ...]) -> list[Kind]:
        assert verbs == ("list", "deletecollection")
        return [PODS, CONFIG_MAPS, JOBS, NODES, EVENTS]

    monkeypatch.setattr(namespaces, "served_kinds", served_kinds)


OBJECT: Json = {"metadata": {"name": "x"}}


async def test_a_deleted_namespace_is_emptied_pods_first_and_then_finalized() -> None:
    client = NamespaceClient(pods=[OBJECT], configmaps=[OBJECT], nodes=[OBJECT], events=[OBJECT])
    await client.end(namespace(finalizers=("kubernetes", "mine")))
    assert (client.emptied, client.requeue_after, client.finalized) == (["pods", "configmaps"], None, [["mine"]])
    assert client.writes[0][2] == ("ns", "Background")
    assert client.true_conditions == {}
    assert [body.get("answered") for body in client.bodies("update/finalize")] == [True]
    for found in (None, namespace(deleted=""), namespace(finalizers=("mine",)), namespace(finalizers=())):
        client = await NamespaceClient(pods=[OBJECT]).end(found)
        assert (client.requeue_after, client.writes) == (None, [])


async def test_while_there_are_pods_nothing_else_is_deleted() -> None:
    client = NamespaceClient(pods=[{"metadata": {"name": "x", "deletionTimestamp": "x"}}], configmaps=[OBJECT])
    client.stubborn = {"pods"}
    await client.end(namespace())
    assert (client.emptied, client.finalized, client.true_conditions) == (["pods"], [], {})
    assert client.requeue_after == namespaces._RETRY


@pytest.mark.parametrize(
    ("left", "failures"),
    [
        ({"metadata": {"name": "x", "finalizers": ["f"]}}, 0),
        ({"metadata": {"name": "x", "deletionTimestamp": "x"}}, 0),
        ({"metadata": {"name": "x"}}, 1),
    ],
)
async def test_remaining_objects_are_reported_and_deleted_again(left: Json, failures: int) -> None:
    client = NamespaceClient(jobs=[left])
    client.stubborn = {"jobs"}
    await client.end(namespace())
    assert (client.requeue_after, client.finalized) == (namespaces._RETRY, [])
    assert "jobs.batch has 1 resource instances" in client.true_conditions["ContentRemaining"]
    assert ("FinalizersRemaining" in client.true_conditions) is ("finalizers" in left["metadata"])
    text = "unexpected items still remain in namespace: ns for gvr: batch/v1, Resource=jobs"
    assert (text in client.true_conditions.get("DeletionContentFailure", "")) is bool(failures)


async def test_a_kind_that_cannot_be_listed_is_reported_and_the_others_go_on() -> None:
    for plural, emptied in (("configmaps", ["jobs"]), ("pods", [])):
        client = NamespaceClient(jobs=[OBJECT])
        client.fails = {plural}
        await client.end(namespace())
        assert (client.emptied, client.requeue_after, client.finalized) == (emptied, namespaces._RETRY, [])
        assert f"no {plural}" in client.true_conditions["DeletionContentFailure"]


async def test_the_conditions_of_a_namespace_are_not_written_again() -> None:
    first = await NamespaceClient().end(namespace())
    again = await NamespaceClient().end(namespace(conditions=first.status["conditions"]))
    assert again.verbs == ["update/finalize"]


@pytest.mark.parametrize(
    ("verb", "refusal", "fails"),
    [("update/status", (404, "NotFound"), False), ("update/status", (409, "Conflict"), False),
     ("update/status", (403, "Forbidden"), True), ("update/finalize", (404, "NotFound"), False),
     ("update/finalize", (409, "Conflict"), True)],
)  # fmt: skip
async def test_a_namespace_that_is_gone_or_another_by_now_is_no_error(
    verb: str, refusal: tuple[int, str], fails: bool
) -> None:
    client = NamespaceClient()
    client.refuses = {verb: refusal}
    await client.end(namespace())
    assert (client.error is not None) is fails
    assert ("update/finalize" in client.verbs) is (verb == "update/finalize" or not fails)


# --- Endpoints

TIME = "2026-01-01T00:00:00Z"
SELECTED: Json = {
    "kind": "Service",
    "metadata": make_metadata(
        "s", "ns", creationTimestamp=TIME, labels={"a": "b", "service.kubernetes.io/headless": ""}
    ),
    "spec": {"selector": {"app": "x"}, "clusterIP": "10.0.0.1", "ports": [{"port": 80, "protocol": "TCP"}]},
}
POD = make_pod(
    "p", labels={"app": "x"}, created=TIME, node="n",
    status={"phase": "Running", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": TIME}]},
)  # fmt: skip
CURRENT: Json = {"kind": "Endpoints", "metadata": make_metadata("s", "ns"), "subsets": []}
CHANGED = {"endpoints.kubernetes.io/last-change-trigger-time": TIME}


async def reconcile(*objects: Json | None, **refuses: Any) -> RecordingClient:
    """Reconcile the Endpoints of the service."""
    return await reconcile_once(endpoints, "ns/s", *objects, refuses=refuses)


async def test_endpoints_follow_the_pods_of_a_service() -> None:
    [(verb, kind, made)] = (await reconcile(SELECTED, POD)).writes
    assert (verb, kind, made["metadata"]["name"], made["metadata"]["annotations"]) == (
        "create",
        "Endpoints",
        "s",
        CHANGED,
    )
    assert made["metadata"]["labels"] == {"a": "b", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
    [subset] = made["subsets"]
    assert ([each["ip"] for each in subset["addresses"]], subset["ports"][0]["port"]) == (["10.1.0.1"], 80)
    made["kind"] = "Endpoints"
    assert (await reconcile(SELECTED, POD, made)).writes == []
    over: Json = {"annotations": {"endpoints.kubernetes.io/over-capacity": "truncated"}}
    unlabelled: Json = {"labels": {}}
    for change in (over, unlabelled):
        other = {**made, "metadata": {**made["metadata"], **change}}
        [(verb, _, mended)] = (await reconcile(SELECTED, POD, other)).writes
        assert (verb, mended["metadata"]) == ("update", made["metadata"])
    mine = {**made, "metadata": {**made["metadata"], "annotations": {"mine": "1"}}, "subsets": []}
    [(_, _, mended)] = (await reconcile(SELECTED, POD, mine)).writes
    assert (mended["metadata"]["annotations"], mended["subsets"]) == ({"mine": "1", **CHANGED}, made["subsets"])
    headless = {**SELECTED, "spec": {**SELECTED["spec"], "clusterIP": "None"}}
    [(_, _, made)] = (await reconcile(headless, POD)).writes
    assert made["metadata"]["labels"]["service.kubernetes.io/headless"] == ""
    without = {**SELECTED, "spec": {"clusterIP": "10.0.0.1"}}
    assert (await reconcile(without, POD)).writes == []


async def test_endpoints_go_with_their_service() -> None:
    assert (await reconcile(CURRENT)).writes == [("delete", "Endpoints", ("ns/s", {}))]
    assert (await reconcile()).writes == []
    assert (await reconcile(CURRENT, delete=(404, "NotFound"))).error is None
    assert (await reconcile(CURRENT, delete=(403, "Forbidden"))).error is not None


async def test_endpoints_that_cannot_be_written_are_reported_but_in_a_namespace_that_ends() -> None:
    failed = await reconcile(SELECTED, POD, create=(403, "Forbidden"))
    text = "Failed to create endpoint for service ns/s: refused"
    assert (failed.events, failed.error is not None) == ([("Warning", "FailedToCreateEndpoint", text)], True)
    failed = await reconcile(SELECTED, POD, CURRENT, update=(409, "Conflict"))
    assert failed.events == [("Warning", "FailedToUpdateEndpoint", "Failed to update endpoint ns/s: refused")]
    ending = await reconcile(SELECTED, POD, create=(403, "Forbidden", {"causes": [{"reason": "NamespaceTerminating"}]}))
    assert (ending.events, ending.error) == ([], None)


# --- slices of drivers that are gone


class SliceClient(RecordingClient):
    """Records deleted slices. `broken`: the number of failures at first; `node`: whether the Node exists."""

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

    @property
    def pauses(self) -> list[float]:
        return [round(after - before, 1) for before, after in pairwise(self.times)]

    async def wipe(
        self, seconds: float, *changes: tuple[float, bool], start: bool = False, jitter: float = 0
    ) -> SliceClient:
        """Run the wiper for so many seconds; `changes`: when the driver `d` connects or disconnects."""
        wiper = SliceWiper(self, "n", 30, lambda: jitter)  # type: ignore[arg-type]
        if start:
            wiper.start()
        began = asyncio.get_running_loop().time()
        for at, usable in changes:
            await asyncio.sleep(began + at - asyncio.get_running_loop().time())
            wiper.set_connected("d", usable)
        await asyncio.sleep(began + seconds - asyncio.get_running_loop().time())
        await wiper.close()
        await asyncio.sleep(1000)
        return self


MINE = "spec.driver=d,spec.nodeName=n"


async def test_all_slices_of_a_node_go_at_the_start_of_its_kubelet() -> None:
    assert (await SliceClient().wipe(0.1, start=True)).selectors == ["spec.nodeName=n"]


@pytest.mark.parametrize(
    ("changes", "seconds", "removed"),
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
async def test_the_slices_of_a_driver_go_when_it_was_away_for_a_while(
    changes: Any, seconds: float, removed: list[str]
) -> None:
    assert (await SliceClient().wipe(seconds, *changes)).selectors == removed


async def test_a_removal_that_fails_is_tried_again_after_pauses_that_double_up_to_a_limit() -> None:
    client = await SliceClient(broken=4).wipe(100, start=True)
    assert client.selectors == ["spec.nodeName=n"]
    assert client.pauses == [1, 2, 4, 8]
    assert (await SliceClient(broken=2).wipe(100, start=True, jitter=1)).pauses == [1.2, 2.4]
    assert (await SliceClient(broken=1000).wipe(5000, start=True)).pauses == [2**n for n in range(8)]
    unserved = await SliceClient(broken=1, reason="NotFound").wipe(100, start=True)
    assert len(unserved.times) == 1, "slices are not served"
    without_node = await SliceClient(node=False).wipe(100, start=True)
    assert without_node.times == [], "without its Node a kubelet may remove nothing"
