"""Endpoints and their mirrors, and what is counted of them, rule by rule: without a server."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.runtime.metrics import lines_of
from controllers.endpoints import legacy, mirroring
from controllers.endpoints.metrics import MirrorMetrics, ServiceSliceMetrics, SliceMetrics
from controllers.endpoints.subsets import CAPACITY, count, repack, subsets_of, truncate
from controllers.runtime.kinds import ENDPOINT_SLICES
from tests.controllers.services import HEADLESS, TIME, TRIGGER, pod, service
from tests.controllers.test_endpoints import PORTS, endpoints
from tests.support.objects import make_metadata
from tests.support.recording import RecordingClient, build, reconcile_once

pytestmark = pytest.mark.integration

# --- Endpoints


def test_subsets_have_each_pod_at_the_ports_that_it_knows() -> None:
    ready, other = pod("a"), pod("b", "10.0.0.2", ready=False)
    address = {
        "ip": "10.0.0.1",
        "nodeName": "n1",
        "targetRef": {"kind": "Pod", "namespace": "ns", "name": "a", "uid": "u-a"},
    }
    [found] = subsets_of(service(), [ready, other, pod("c", "10.0.0.3", deleted=TIME)])
    assert found["addresses"] == [address]
    assert [each["ip"] for each in found["notReadyAddresses"]] == ["10.0.0.2"]
    assert found["ports"] == [{"port": 8080, "protocol": "TCP"}]
    [all_ready] = subsets_of(service(publishNotReadyAddresses=True), [ready, other, pod("c", "10.0.0.3", deleted=TIME)])
    assert [each["ip"] for each in all_ready["addresses"]] == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    named = service(ports=[{"name": "x", "port": 1, "protocol": "UDP", "appProtocol": "y"}])
    assert subsets_of(named, [ready])[0]["ports"] == [{"name": "x", "port": 1, "protocol": "UDP", "appProtocol": "y"}]
    assert subsets_of(service(ports=[]), [ready]) == []
    assert subsets_of(service(ports=[], clusterIP="None"), [ready]) == [{"addresses": [address]}]


@pytest.mark.parametrize(
    ("spec", "ip"),
    [
        ({}, "10.0.0.1"),
        ({"clusterIP": "fd00::96"}, "fd00::1"),
        ({"clusterIP": "None"}, "10.0.0.1"),
        ({"clusterIP": "None", "ipFamilies": ["IPv6"]}, "fd00::1"),
        ({"clusterIP": "fd00::96", "ipFamilies": ["IPv4", "IPv6"]}, "10.0.0.1"),
    ],
)
def test_the_family_of_addresses_is_the_services_first_one(spec: Json, ip: str) -> None:
    both = pod("a", "10.0.0.1", "fd00::1")
    [found] = subsets_of(service(**spec), [both])
    assert [each["ip"] for each in found["addresses"]] == [ip]
    only = pod("a", "fd00::1")
    assert bool(subsets_of(service(**spec), [only])) is (ip == "fd00::1" or spec == {"clusterIP": "None"})


def test_an_address_that_is_ready_at_one_port_alone_stands_in_two_subsets() -> None:
    one, a, b = {"ip": "10.0.0.1"}, {"name": "a", "port": 1}, {"name": "b", "port": 2}
    found = repack([{"addresses": [one], "ports": [a]}, {"notReadyAddresses": [one], "ports": [b]}])
    assert sorted(found, key=str) == [{"addresses": [one], "ports": [a]}, {"notReadyAddresses": [one], "ports": [b]}]
    assert repack([{"addresses": [one], "ports": [a]}, {"notReadyAddresses": [one], "ports": [a]}]) == [
        {"notReadyAddresses": [one], "ports": [a]}
    ]
    twins = [{"ip": "10.0.0.1", "targetRef": {"uid": uid}} for uid in "xy"]
    [both] = repack([{"addresses": twins, "ports": [a]}])
    assert len(both["addresses"]) == 2


def test_what_is_too_much_is_cut_in_shares() -> None:
    def row(net: int, number: int) -> list[Json]:
        return [{"ip": f"10.{net}.{n // 250}.{n % 250}"} for n in range(number)]

    two = [{"addresses": row(1, 900), "ports": PORTS}, {"addresses": row(2, 300)}]
    assert [len(each["addresses"]) for each in truncate(two)] == [750, 250]
    assert truncate(two)[0]["ports"] == PORTS
    assert count(two) == 1200
    mixed = [
        {"addresses": row(1, 400), "notReadyAddresses": row(3, 600)},
        {"addresses": row(2, 400), "notReadyAddresses": row(4, 200)},
    ]
    cut = truncate(mixed)
    assert [(len(each["addresses"]), len(each["notReadyAddresses"])) for each in cut] == [(400, 150), (400, 50)]
    assert count(cut) == CAPACITY
    full = [{"addresses": row(1, CAPACITY), "notReadyAddresses": row(2, 1)}]
    assert [set(each) for each in truncate(full)] == [{"addresses"}]


def test_endpoints_have_a_manager_label_and_a_truncation_annotation() -> None:
    web = service()
    web["metadata"]["labels"] = {"team": "a", HEADLESS: "mine"}
    ours = {"team": "a", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
    subsets = [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}]}]
    made = legacy._build(None, web, subsets, "now")
    assert made["metadata"] == {"name": "web", "namespace": "ns", "labels": ours, "annotations": {TRIGGER: "now"}}
    assert made["subsets"] == subsets
    before = {**made, "metadata": {**made["metadata"], "uid": "kept", "annotations": {TRIGGER: "now", "mine": "x"}}}
    after = legacy._build(before, web, subsets, "")
    assert (after["metadata"]["uid"], after["metadata"]["annotations"]) == ("kept", {"mine": "x"})
    assert legacy._build(None, web, subsets, "")["metadata"]["annotations"] is None
    many = [{"addresses": [{"ip": f"10.0.{n // 250}.{n % 250}"} for n in range(CAPACITY + 1)], "ports": [{"port": 1}]}]
    cut = legacy._build(None, web, many, "")
    assert (count(cut["subsets"]), cut["metadata"]["annotations"]) == (
        CAPACITY,
        {"endpoints.kubernetes.io/over-capacity": "truncated"},
    )
    assert legacy._build(cut, web, subsets, "")["metadata"]["annotations"] is None
    assert legacy._labels(service(clusterIP="None"))[HEADLESS] == ""


def test_endpoints_are_written_when_labels_addresses_or_the_mark_of_a_cut_differ() -> None:
    web, subsets = service(), [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}]}]
    current = legacy._build(None, web, subsets, "")
    assert legacy._is_current(current, web, subsets)
    assert not legacy._is_current(current, web, [])
    assert not legacy._is_current({**current, "metadata": {**current["metadata"], "labels": {}}}, web, subsets)
    over = {"endpoints.kubernetes.io/over-capacity": "truncated"}
    assert not legacy._is_current({**current, "metadata": {**current["metadata"], "annotations": over}}, web, subsets)
    many = repack(
        [{"addresses": [{"ip": f"10.0.{n // 250}.{n % 250}"} for n in range(CAPACITY + 1)], "ports": [{"port": 1}]}]
    )
    assert not legacy._is_current({**current, "subsets": many}, web, many)
    assert legacy.LegacyEndpoints._is_ours(current)
    assert not legacy.LegacyEndpoints._is_ours({"metadata": {}})


# --- mirrors


WRITTEN: Json = {
    "metadata": {"name": "web", "namespace": "ns", "uid": "e", "labels": {"team": "a"},
                 "annotations": {TRIGGER: "x", "kubectl.kubernetes.io/last-applied-configuration": "y", "mine": "z"}},
}  # fmt: skip


def test_an_address_is_mirrored_with_what_is_known_of_it() -> None:
    assert mirroring._endpoint({"ip": "not one"}, True) is None
    assert mirroring._endpoint({"ip": "10.0.0.1"}, False) == {"addresses": ["10.0.0.1"], "conditions": {"ready": False}}
    more = {"hostname": "h", "nodeName": "n", "targetRef": {"name": "p"}}
    assert mirroring._endpoint({"ip": "fd00:0::1", **more}, True) == {
        "addresses": ["fd00::1"], "conditions": {"ready": True}, **more,
    }  # fmt: skip
    both = {"addresses": [{"ip": "1"}], "notReadyAddresses": [{"ip": "2"}]}
    assert list(mirroring._addresses(both)) == [({"ip": "1"}, True), ({"ip": "2"}, False)]


def test_a_mirror_has_the_labels_and_the_annotations_that_are_not_about_the_original() -> None:
    made = mirroring._slice_of(WRITTEN, "IPv4", [{"port": 1}], [])
    assert made["metadata"]["annotations"] == {"mine": "z"}
    assert made["metadata"]["generateName"] == "web-"
    assert made["metadata"]["labels"] == {
        "team": "a",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
    }
    assert made["ports"] == [{"name": "", "protocol": "TCP", "port": 1}]
    bare = mirroring._slice_of({"metadata": {**WRITTEN["metadata"], "annotations": None}}, "IPv4", [], [])
    assert "annotations" not in bare["metadata"]
    assert mirroring._mirrored_service(made) == ("ns/web",)
    foreign = {
        **made["metadata"],
        "labels": {**made["metadata"]["labels"], "endpointslice.kubernetes.io/managed-by": "me"},
    }
    assert mirroring._mirrored_service({"metadata": foreign}) == ()
    assert mirroring._mirrored_service({"metadata": {"namespace": "ns"}}) == ()


def test_a_mirror_is_written_when_something_of_it_differs() -> None:
    wanted = endpoints(1, 2)
    made = mirroring._slice_of(WRITTEN, "IPv4", [], list(wanted.values()))
    assert mirroring._is_current(made, made, wanted)
    metadata = made["metadata"]
    for known in (
        {**made, "endpoints": list(endpoints(1).values())},
        {**made, "endpoints": list(endpoints(1, 3).values())},
        {**made, "endpoints": list(endpoints(1, 2, 3).values())},
        {**made, "endpoints": [{**each, "conditions": {"ready": False}} for each in wanted.values()]},
        {**made, "metadata": {**metadata, "labels": {}}},
        {**made, "metadata": {**metadata, "annotations": None}},
        {**made, "metadata": {**metadata, "ownerReferences": []}},
    ):
        assert not mirroring._is_current(known, made, wanted)
    bare = mirroring._slice_of({"metadata": {**WRITTEN["metadata"], "annotations": None}}, "IPv4", [], [])
    assert mirroring._is_current(bare, bare, {})
    assert mirroring._is_current({**bare, "metadata": {**bare["metadata"], "annotations": {}}}, bare, {})


# --- what is counted


def test_slices_that_would_do_are_counted_by_ports_and_owner() -> None:
    def values(metrics: SliceMetrics) -> dict[str, float]:
        lines = (line.rpartition(" ") for line in lines_of(metrics.families) if not line.startswith("#"))
        return {
            name.removeprefix(metrics.subsystem): float(value)
            for name, _, value in lines
            if "_endpoints_desired" in name or "endpoint_slices" in name or "services_count" in name
        }

    services = ServiceSliceMetrics(100)
    services.set_slices("a", "IPv4", 3, [100, 101])
    services.set_slices("a", "IPv6", 1, [])
    services.set_slices("b", "IPv4", 1, [1])
    services.distributions |= {"a": "PreferSameZone", "b": "PreferSameZone", "c": "", "d": "PreferClose"}
    assert values(services) == {
        "_endpoints_desired": 202,
        "_num_endpoint_slices": 5,
        "_desired_endpoint_slices": 5,
        '_services_count_by_traffic_distribution{traffic_distribution="PreferClose"}': 1,
        '_services_count_by_traffic_distribution{traffic_distribution="PreferSameZone"}': 2,
    }
    for owner in ("a", "b", "d", "never"):
        services.remove(owner)
    assert values(services) == {"_endpoints_desired": 0, "_num_endpoint_slices": 0, "_desired_endpoint_slices": 0}
    mirrors = MirrorMetrics(1000)
    mirrors.set_slices("a", "", 0, [])
    assert values(mirrors) == {"_endpoints_desired": 0, "_num_endpoint_slices": 0, "_desired_endpoint_slices": 0}
    assert {family.name.removeprefix(mirrors.subsystem) for family in mirrors.families} == {
        "_endpoints_added_per_sync", "_endpoints_removed_per_sync", "_endpoints_desired", "_num_endpoint_slices",
        "_desired_endpoint_slices", "_endpoints_updated_per_sync", "_addresses_skipped_per_sync",
        "_endpoints_sync_duration",
    }  # fmt: skip


# --- one pass

PLAIN: Json = {"kind": "Service", "metadata": make_metadata("web", "ns"), "spec": {}}


def make_endpoints(*ips: str, **metadata: Any) -> Json:
    """Build the Endpoints `web` with these addresses."""
    subset: Json = {"addresses": [{"ip": ip} for ip in ips], "ports": [{"port": 80, "protocol": "TCP"}]}
    return {"kind": "Endpoints", "metadata": make_metadata("web", "ns", **metadata), "subsets": [subset]}


async def mirror(*objects: Json | None) -> RecordingClient:
    """Reconcile the Endpoints `web`."""
    return await reconcile_once(mirroring.build, "ns/web", *objects)


async def test_endpoints_of_users_are_mirrored_and_written_slices_are_waited_for() -> None:
    made = build(mirroring.build, RecordingClient({"EndpointSlice": _answer}), make_endpoints("10.0.0.1"), PLAIN)
    assert (await made.reconcile("ns/web")).verbs == ["create"]
    assert made.component._written == {"ns/web": {ENDPOINT_SLICES: 7}}, "until the informer has it"
    ours = _answer(made.writes[0][2])
    selecting = {**PLAIN, "spec": {"selector": {"a": "b"}}}
    skip = "endpointslice.kubernetes.io/skip-mirror"
    leader = {"annotations": {"control-plane.alpha.kubernetes.io/leader": ""}}
    for found, of, slices, verbs in (
        (make_endpoints("10.0.0.1"), PLAIN, [ours], []),
        (make_endpoints("10.0.0.1"), None, [ours], ["delete"]),
        (make_endpoints("10.0.0.1"), selecting, [ours], ["delete"]),
        (make_endpoints("10.0.0.1", labels={skip: "true"}), PLAIN, [ours], ["delete"]),
        (make_endpoints("10.0.0.1", **leader), PLAIN, [ours], ["delete"]),
        (make_endpoints("10.0.0.1", labels={skip: "no"}), PLAIN, [ours], ["update"]),
        (make_endpoints("10.0.0.1", deletionTimestamp="x"), PLAIN, [], []),
        (None, PLAIN, [ours], ["delete"]),
    ):
        assert (await mirror(found, of, *slices)).verbs == verbs


def _answer(made: Json) -> Json:
    return {**made, "kind": "EndpointSlice", "metadata": {"name": "web-x", "resourceVersion": "7", **made["metadata"]}}


async def test_addresses_that_cannot_be_mirrored_are_reported() -> None:
    many = [f"10.0.{number // 250}.{number % 250}" for number in range(mirroring.MOST + 1)]
    for ips in (["10.0.0.1"], many[:-1]):
        assert (await mirror(make_endpoints(*ips), PLAIN)).events == []
    text = "Skipped 2 invalid IP addresses when mirroring to EndpointSlices"
    assert (await mirror(make_endpoints("x", "10.0.0.1", "y"), PLAIN)).events == [("Warning", "InvalidIPAddress", text)]
    cut = await mirror(make_endpoints("!x", *many), PLAIN)
    assert cut.reasons == ["InvalidIPAddress", "TooManyAddressesToMirror"]
    assert cut.events[1][2].endswith("per Endpoints subset. 2 addresses were skipped")


async def test_endpoints_are_queued_when_their_service_or_their_slices_change() -> None:
    client = build(mirroring.build, RecordingClient())

    def changed(kind: str, name: str, **labels: str) -> list[str]:
        obj = {"kind": kind, "metadata": make_metadata(name, "ns", labels=labels), "spec": {}}
        return client.set_objects(obj).queued()

    ours = {"kubernetes.io/service-name": "left", "endpointslice.kubernetes.io/managed-by": mirroring.MANAGER}
    assert changed("Endpoints", "web") == ["ns/web"]
    assert changed("Service", "web") == ["ns/web"]
    assert changed("Service", "other") == [], "it has no mirror"
    assert changed("EndpointSlice", "left-x", **ours) == ["ns/left"]
    assert changed("Service", "left") == ["ns/left"], "a slice of it is left"
    assert changed("EndpointSlice", "left-y", **{**ours, "endpointslice.kubernetes.io/managed-by": "me"}) == []
