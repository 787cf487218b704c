"""What one look does for the ranges of services' addresses, and for the claims of ephemeral volumes."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.cluster.service_cidrs import FINALIZER, ServiceRanges
from controllers.options.options import Options
from controllers.runtime.controller import NotYetError
from controllers.runtime.kinds import IP_ADDRESSES, PODS, SERVICE_CIDRS, VOLUME_CLAIMS
from controllers.volumes.ephemeral import EphemeralVolumes, ephemeral_claim
from tests.support.recording import FakeRecorder, RecordingClient, make_informers
from tests.support.virtual import run

pytestmark = pytest.mark.integration

READY = {"type": "Ready", "status": "True", "reason": "", "message": "Kubernetes Service CIDR is ready"}


def cidr(name: str, *cidrs: str, going: bool = False, ours: bool = True, conditions: tuple[Json, ...] = ()) -> Json:
    metadata: Json = {"name": name, "uid": name, **({"finalizers": [FINALIZER]} if ours else {})}
    metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {}
    return {"metadata": metadata, "spec": {"cidrs": list(cidrs)}, "status": {"conditions": list(conditions)}}


def address(name: str, owner: str = "ipallocator.k8s.io") -> Json:
    return {"metadata": {"name": name, "uid": name, "labels": {"ipaddress.kubernetes.io/managed-by": owner}}}


def looked(
    name: str, ranges: list[Json], addresses: list[Json] | None = None, at: float = 60, refuses: Any = None
) -> tuple[list[str], timedelta | None, RecordingClient]:
    """What was done in short, when to look again; `at`: seconds after the deletion."""
    client = RecordingClient()
    client.refuses = refuses or {}
    again: list[timedelta | None] = []

    async def scenario() -> None:
        informers = make_informers(SERVICE_CIDRS, *ranges)
        make_informers(IP_ADDRESSES, *(addresses or ()), informers=informers)
        await asyncio.sleep(at)
        again.append(await ServiceRanges(client, informers).reconcile(name))  # type: ignore[arg-type]

    run(scenario)
    done = []
    for verb, _, (_, body) in client.writes:
        if verb == "patch/status":
            [condition] = body["status"]["conditions"]
            done.append(f"{condition['status']} {condition['reason']}".strip())
        else:
            done.append(next(iter(body["metadata"])))
    return done, again[0], client


def test_a_range_that_is_new_gets_its_finalizer_and_is_ready() -> None:
    assert looked("a", [cidr("a", "10.0.0.0/24", ours=False)])[0] == ["finalizers", "True"]
    assert looked("a", [cidr("a", "10.0.0.0/24")])[0] == ["True"]
    assert looked("a", [cidr("a", "10.0.0.0/24", conditions=(READY,))])[0] == []
    assert looked("none", [])[0] == []
    for change in ({"status": "False"}, {"type": "Other"}, {"message": ""}, {"reason": "x"}):
        assert looked("a", [cidr("a", "10.0.0.0/24", conditions=({**READY, **change},))])[0] == ["True"]
    _, _, client = looked("a", [cidr("a", "10.0.0.0/24", ours=False)])
    assert client.writes[0][2] == ("a", {"metadata": {"finalizers": [FINALIZER]}})
    [told] = client.writes[1][2][1]["status"]["conditions"]
    assert {name: told[name] for name in READY} == READY


def test_a_range_that_is_gone_meanwhile_is_left_alone() -> None:
    assert looked("a", [cidr("a", "10.0.0.0/24")], refuses={"patch/status": (404, "NotFound")})[0] == ["True"]
    with pytest.raises(StatusError):
        looked("a", [cidr("a", "10.0.0.0/24")], refuses={"patch/status": (409, "Conflict")})


GOING = cidr("a", "10.0.0.0/24", going=True)
GONE, STAYS = ["$deleteFromPrimitiveList/finalizers"], ["False Terminating"]


@pytest.mark.parametrize(
    ("others", "addresses", "done"),
    [
        ([], [], GONE),
        ([], ["10.0.0.5"], STAYS),
        ([], ["10.0.1.5"], GONE),
        ([], ["10.0.0.0"], GONE),
        ([], ["10.0.0.255"], GONE),
        ([], ["10.0.0.254"], STAYS),
        (["10.0.0.0/16"], ["10.0.0.5"], GONE),
        (["10.0.0.0/25"], ["10.0.0.5"], GONE),
        (["10.0.0.0/25"], ["10.0.0.5", "10.0.0.200"], STAYS),
        (["10.0.0.0/25"], ["10.0.0.127"], STAYS),
        (["10.0.1.0/24"], ["10.0.0.5"], STAYS),
        (["fd00::/64"], ["10.0.0.5"], STAYS),
    ],
)
def test_a_deleted_range_stays_while_an_address_is_in_no_other(
    others: list[str], addresses: list[str], done: list[str]
) -> None:
    ranges = [GOING, *(cidr(f"o{number}", network) for number, network in enumerate(others))]
    assert looked("a", ranges, [address(name) for name in addresses])[0] == done


def test_of_two_families_each_has_to_be_covered() -> None:
    both = cidr("a", "10.0.0.0/24", "fd00::/112", going=True)
    six = [address("fd00::ffff")]
    assert looked("a", [both], six)[0] == STAYS, "the last address of IPv6 is one"
    assert looked("a", [both], [address("fd00::")])[0] == GONE
    assert looked("a", [both, cidr("b", "10.0.0.0/8")], six)[0] == STAYS
    assert looked("a", [both, cidr("b", "10.0.0.0/8"), cidr("c", "fd00::/64")], six)[0] == GONE


def test_an_address_that_is_not_a_services_keeps_nothing() -> None:
    assert looked("a", [GOING], [address("10.0.0.5", "somebody")])[0] == GONE
    bare = {"metadata": {"name": "10.0.0.5", "uid": "x"}}
    assert looked("a", [GOING], [bare])[0] == GONE


def test_a_deleted_range_goes_after_ten_seconds_and_without_our_finalizer_without_us() -> None:
    assert looked("a", [GOING], at=4)[:2] == ([], timedelta(seconds=6))
    done, again, client = looked("a", [GOING], at=10)
    assert (done, again) == (GONE, None)
    assert client.writes[0][2] == ("a", {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}})
    assert looked("a", [cidr("a", "10.0.0.0/24", going=True, ours=False)])[0] == []


async def test_an_address_has_the_deleted_ranges_looked_at_that_it_keeps() -> None:
    ranges = [GOING, cidr("b", "10.0.0.0/16"), cidr("c", "10.1.0.0/16", going=True)]

    part = ServiceRanges(RecordingClient(), make_informers(SERVICE_CIDRS, *ranges))  # type: ignore[arg-type]
    assert part._deleted_ranges_of(address("10.0.0.5")) == ["a"]
    assert part._deleted_ranges_of(address("10.2.0.5")) == []


# --- claims of ephemeral volumes


def pod(*volumes: str, going: bool = False, phase: str = "Pending") -> Json:
    template = {"metadata": {"labels": {"l": "1"}, "annotations": {}, "name": "ignored"}, "spec": {"accessModes": []}}
    found = [{"name": name, "ephemeral": {"volumeClaimTemplate": template}} for name in volumes]
    gone = {"deletionTimestamp": "x"} if going else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "uid": "u", **gone},
            "spec": {"volumes": [*found, {"name": "plain", "emptyDir": {}}]}, "status": {"phase": phase}}  # fmt: skip


class Volumes:
    """One look at a pod."""

    def __init__(self, found: Json | None, *claims: Json, client: RecordingClient | None = None) -> None:
        self.client, self.told = client or RecordingClient(), FakeRecorder()
        self.error: Exception | None = None

        async def scenario() -> None:
            informers = make_informers(PODS, *([found] if found else ()))
            make_informers(VOLUME_CLAIMS, *claims, informers=informers)
            self.part = EphemeralVolumes(self.client, informers, Options())  # type: ignore[arg-type]
            self.part._recorder = self.told  # type: ignore[assignment]
            try:
                await self.part.reconcile("ns/p")
            except (StatusError, NotYetError) as error:
                self.error = error
            self.counts = [
                next(iter(each.lines())).rpartition(" ")[2] for each in (self.part._created, self.part._failed)
            ]

        run(scenario)

    @property
    def made(self) -> list[str]:
        return [what["metadata"]["name"] for verb, _, what in self.client.writes if verb == "create"]


def test_each_ephemeral_volume_gets_a_claim_of_its_pods() -> None:
    look = Volumes(pod("a", "b"))
    assert (look.made, look.error, look.counts) == (["p-a", "p-b"], None, ["2", "0"])
    claim = look.client.writes[0][2]
    assert claim["spec"] == {"accessModes": []}
    assert claim["metadata"] == {
        "name": "p-a", "namespace": "ns", "labels": {"l": "1"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True,
                             "blockOwnerDeletion": True}],
    }  # fmt: skip
    assert Volumes(pod("a", "b"), claim).made == ["p-b"]


@pytest.mark.parametrize("found", [None, pod("a", going=True), pod("a", phase="Succeeded"), pod("a", phase="Failed")])
def test_a_pod_that_goes_or_has_ended_gets_no_claim(found: Json | None) -> None:
    assert Volumes(found).made == []


def test_a_claim_of_somebody_else_is_not_taken() -> None:
    claim = ephemeral_claim(pod("a"), pod("a")["spec"]["volumes"][0])
    claim["metadata"]["ownerReferences"][0]["uid"] = "another"
    look = Volumes(pod("a"), claim)
    assert (look.made, str(look.error)[:20]) == ([], "ephemeral volume a: ")
    assert isinstance(look.error, NotYetError)


def test_a_claim_that_cannot_be_made_is_told_and_one_that_was_just_made_is_read() -> None:
    client = RecordingClient()
    client.refuses["create"] = (403, "Forbidden")
    refused = Volumes(pod("a"), client=client)
    assert refused.told.events == [("Warning", "ProvisioningFailed", "ephemeral volume a: create PVC p-a: refused")]
    assert isinstance(refused.error, StatusError)
    assert (refused.error.code, refused.counts) == (403, ["1", "1"])
    client = RecordingClient()
    client.refuses["create"] = (409, "AlreadyExists")
    client.there["PersistentVolumeClaim", "p-a"] = ephemeral_claim(pod("a"), pod("a")["spec"]["volumes"][0])
    late = Volumes(pod("a"), client=client)
    assert (late.error, late.told.events, late.counts) == (None, [], ["1", "1"])


def test_a_claim_that_went_has_its_pod_looked_at() -> None:
    look = Volumes(pod("a"))
    claim = look.client.writes[0][2]
    for change, looked_at in (({}, 1), ({"controller": False}, 0), ({"kind": "Node"}, 0)):
        part = Volumes(None).part
        reference = {**claim["metadata"]["ownerReferences"][0], **change}

        async def scenario(part: Any = part, reference: Json = reference) -> int:
            part._claim_gone({"metadata": {**claim["metadata"], "ownerReferences": [reference]}})
            return len(part._controller.queue)

        assert run(scenario) == looked_at
