"""One pass over the ranges of services' addresses, and over pods with ephemeral volumes."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.cluster.service_cidrs import FINALIZER
from controllers.cluster.service_cidrs import build as service_ranges
from controllers.runtime.controller import NotYetError
from controllers.volumes.ephemeral import EphemeralVolumes, ephemeral_claim
from tests.support.objects import make_metadata, make_pod
from tests.support.recording import RecordingClient, build

pytestmark = pytest.mark.integration

READY = {"type": "Ready", "status": "True", "reason": "", "message": "Kubernetes Service CIDR is ready"}


def cidr(name: str, *cidrs: str, deleted: str = "", ours: bool = True, conditions: tuple[Json, ...] = ()) -> Json:
    """Build a ServiceCIDR. `ours`: with our finalizer."""
    metadata = make_metadata(name, finalizers=[FINALIZER] if ours else [], deletionTimestamp=deleted)
    status = {"conditions": list(conditions)}
    return {"kind": "ServiceCIDR", "metadata": metadata, "spec": {"cidrs": list(cidrs)}, "status": status}


def address(name: str, owner: str = "ipallocator.k8s.io") -> Json:
    labels = {"ipaddress.kubernetes.io/managed-by": owner} if owner else {}
    return {"kind": "IPAddress", "metadata": make_metadata(name, labels=labels)}


class RangeClient(RecordingClient):
    @property
    def steps(self) -> list[str]:
        """The writes in short."""
        done = []
        for verb, _, (_, body) in self.writes:
            if verb == "patch/status":
                [condition] = body["status"]["conditions"]
                done.append(f"{condition['status']} {condition['reason']}".strip())
            else:
                done.append(next(iter(body["metadata"])))
        return done


async def reconcile(*objects: Json, at: float = 60, **more: Any) -> RangeClient:
    """Reconcile the range `a` so many seconds after the start."""
    await asyncio.sleep(at)
    return await build(service_ranges, RangeClient(), *objects, **more).reconcile("a")


async def test_a_new_range_gets_its_finalizer_and_is_ready() -> None:
    for found, steps in (
        (cidr("a", "10.0.0.0/24", ours=False), ["finalizers", "True"]),
        (cidr("a", "10.0.0.0/24"), ["True"]),
        (cidr("a", "10.0.0.0/24", conditions=(READY,)), []),
        (cidr("other"), []),
        *((cidr("a", conditions=({**READY, **change},)), ["True"])
          for change in ({"status": "False"}, {"type": "Other"}, {"message": ""}, {"reason": "x"})),
    ):  # fmt: skip
        assert (await reconcile(found)).steps == steps
    client = await reconcile(cidr("a", "10.0.0.0/24", ours=False))
    assert client.writes[0][2] == ("a", {"metadata": {"finalizers": [FINALIZER]}})
    [condition] = client.writes[1][2][1]["status"]["conditions"]
    assert {name: condition[name] for name in READY} == READY


@pytest.mark.parametrize(
    ("verb", "code", "fails"),
    [("patch/status", 404, False), ("patch", 404, False), ("patch", 409, True), ("patch/status", 409, True)],
)
async def test_a_range_that_is_gone_meanwhile_is_left_alone(verb: str, code: int, fails: bool) -> None:
    refusal = (code, "NotFound" if code == 404 else "Conflict")
    client = await reconcile(cidr("a", "10.0.0.0/24", ours=False), refuses={verb: refusal})
    assert (client.error is not None) is fails


TIME = "2026-01-01T00:00:00Z"
GOING = cidr("a", "10.0.0.0/24", deleted=TIME)
GONE, STAYS = ["$deleteFromPrimitiveList/finalizers"], ["False Terminating"]


@pytest.mark.parametrize(
    ("others", "addresses", "steps"),
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
async def test_a_deleted_range_stays_while_an_address_is_in_no_other(
    others: list[str], addresses: list[str], steps: list[str]
) -> None:
    ranges = [cidr(f"o{number}", network) for number, network in enumerate(others)]
    assert (await reconcile(GOING, *ranges, *(address(name) for name in addresses))).steps == steps


async def test_of_two_families_each_has_to_be_covered() -> None:
    both, six = cidr("a", "10.0.0.0/24", "fd00::/112", deleted=TIME), address("fd00::ffff")
    assert (await reconcile(both, six)).steps == STAYS, "the last address of IPv6 is one"
    assert (await reconcile(both, address("fd00::"))).steps == GONE
    assert (await reconcile(both, cidr("b", "10.0.0.0/8"), six)).steps == STAYS
    assert (await reconcile(both, cidr("b", "10.0.0.0/8"), cidr("c", "fd00::/64"), six)).steps == GONE


async def test_an_address_of_another_manager_does_not_count() -> None:
    for owner in ("another", ""):
        assert (await reconcile(GOING, address("10.0.0.5", owner))).steps == GONE


async def test_a_deleted_range_goes_after_ten_seconds_and_without_our_finalizer_without_us() -> None:
    client = await reconcile(GOING, at=4)
    assert (client.steps, client.requeue_after) == ([], timedelta(seconds=6))
    client = await reconcile(GOING, at=6)
    assert (client.steps, client.requeue_after) == (GONE, None)
    assert client.writes[0][2] == ("a", {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}})
    assert (await reconcile(cidr("a", "10.0.0.0/24", deleted=TIME, ours=False))).steps == []


async def test_an_address_enqueues_the_deleted_ranges_that_it_keeps() -> None:
    ranges = [GOING, cidr("b", "10.0.0.0/16"), cidr("c", "10.1.0.0/16", deleted=TIME)]
    part = build(service_ranges, RecordingClient(), *ranges).component
    assert part._deleted_ranges_of(address("10.0.0.5")) == ["a"]
    assert part._deleted_ranges_of(address("10.2.0.5")) == []


# --- claims of ephemeral volumes


def pod(*volumes: str, phase: str = "Pending", deleted: str = "") -> Json:
    """Build a pod with ephemeral volumes and a plain one."""
    template = {"metadata": {"labels": {"l": "1"}, "annotations": {}, "name": "ignored"}, "spec": {"accessModes": []}}
    found = [{"name": name, "ephemeral": {"volumeClaimTemplate": template}} for name in volumes]
    given = [*found, {"name": "plain", "emptyDir": {}}]
    return make_pod("p", uid="u", deleted=deleted, volumes=given, status={"phase": phase})


class ClaimClient(RecordingClient):
    @property
    def made(self) -> list[str]:
        return [body["metadata"]["name"] for body in self.bodies("create")]

    @property
    def counts(self) -> list[str]:
        families = self.component._created, self.component._failed
        return [next(iter(each.lines())).rpartition(" ")[2] for each in families]


async def reconcile_pod(*objects: Json | None, **more: Any) -> ClaimClient:
    """Reconcile the pod `p` once."""
    return await build(EphemeralVolumes, ClaimClient(), *objects, **more).reconcile("ns/p")


async def test_each_ephemeral_volume_gets_a_claim_of_its_pods() -> None:
    client = await reconcile_pod(pod("a", "b"))
    assert (client.made, client.error, client.counts) == (["p-a", "p-b"], None, ["2", "0"])
    claim = client.writes[0][2]
    assert claim["spec"] == {"accessModes": []}
    assert claim["metadata"] == {
        "name": "p-a", "namespace": "ns", "labels": {"l": "1"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True,
                             "blockOwnerDeletion": True}],
    }  # fmt: skip
    assert (await reconcile_pod(pod("a", "b"), claim)).made == ["p-b"]


@pytest.mark.parametrize("found", [None, pod("a", deleted="x"), pod("a", phase="Succeeded"), pod("a", phase="Failed")])
async def test_a_pod_that_is_deleted_or_has_ended_gets_no_claim(found: Json | None) -> None:
    assert (await reconcile_pod(found)).made == []


CLAIM = ephemeral_claim(pod("a"), pod("a")["spec"]["volumes"][0])


async def test_a_claim_of_another_owner_is_not_taken() -> None:
    [reference] = CLAIM["metadata"]["ownerReferences"]
    theirs = {**CLAIM, "metadata": {**CLAIM["metadata"], "ownerReferences": [{**reference, "uid": "another"}]}}
    client = await reconcile_pod(pod("a"), theirs)
    assert (client.made, str(client.error)[:20]) == ([], "ephemeral volume a: ")
    assert isinstance(client.error, NotYetError)


async def test_a_claim_that_cannot_be_made_is_reported_and_one_that_was_just_made_is_read() -> None:
    refused = await reconcile_pod(pod("a"), refuses={"create": (403, "Forbidden")})
    assert refused.events == [("Warning", "ProvisioningFailed", "ephemeral volume a: create PVC p-a: refused")]
    assert isinstance(refused.error, StatusError)
    assert (refused.error.code, refused.counts) == (403, ["1", "1"])
    late = await reconcile_pod(pod("a"), live=[CLAIM], refuses={"create": (409, "AlreadyExists")})
    assert (late.error, late.events, late.counts) == (None, [], ["1", "1"])


async def test_a_removed_claim_enqueues_its_pod() -> None:
    for change, keys in (({}, ["ns/p"]), ({"controller": False}, []), ({"kind": "Node"}, [])):
        reference = {**CLAIM["metadata"]["ownerReferences"][0], **change}
        found = {**CLAIM, "metadata": {**CLAIM["metadata"], "ownerReferences": [reference]}}
        assert build(EphemeralVolumes, RecordingClient(), found).remove_objects(found).queued() == keys
