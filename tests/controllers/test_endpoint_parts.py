"""The parts of the endpoints of services, rule by rule: without a server."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.endpoints.services import TriggerTimes, has_address, has_endpoint, ports
from controllers.endpoints.slicecontroller import _service_and_manager, _with_trigger
from controllers.endpoints.slices import (
    Plan,
    _with_hints,
    address_types,
    endpoint_of,
    is_owned,
    is_same_endpoint,
    key_of_endpoint,
    key_of_ports,
    labels_of,
    new_slice,
    plan_family,
    ports_of,
    set_hints,
)
from tests.controllers.services import HEADLESS, TIME, TRIGGER, pod, service
from tests.controllers.test_endpoints import OWNER, PORTS, endpoints, make_slice

pytestmark = pytest.mark.integration

# --- pods and services


@pytest.mark.parametrize(
    ("one", "shown", "while_leaving"),
    [
        (pod(), True, True),
        (pod(ready=False), True, True),
        (pod(deleted=TIME), False, True),
        (pod(phase="Succeeded"), False, False),
        (pod(phase="Failed"), False, False),
        ({**pod(), "status": {"phase": "Running"}}, False, False),
        ({**pod(), "status": {"phase": "Running", "podIP": "10.0.0.1"}}, True, True),
        ({**pod(), "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]}}, True, True),
    ],
)
def test_a_pod_is_found_while_it_has_an_address_and_has_not_ended(one: Json, shown: bool, while_leaving: bool) -> None:
    assert has_endpoint(one, terminating=False) is shown
    assert has_endpoint(one, terminating=True) is while_leaving


def test_a_service_without_an_address_is_headless() -> None:
    for address, found in (("10.96.0.1", True), ("None", False), ("", False), (None, False)):
        assert has_address(service(clusterIP=address)) is found


def test_the_trigger_time_is_that_of_the_earliest_change_since_the_last_pass() -> None:
    times, web = TriggerTimes(), service()

    def at(name: str, moment: str | None) -> Json:
        made = pod(name)
        made["status"]["conditions"][0]["lastTransitionTime"] = moment
        return made

    first, later, last = (f"2026-01-01T00:0{minute}:00Z" for minute in (1, 5, 9))
    assert times.of(web, [at("a", later)]) == "2026-01-01T00:00:00Z"
    assert times.of(web, [at("a", later)]) == ""
    assert times.of(web, [at("a", later), at("b", last), at("c", first)]) == first
    assert times.of(web, [at("a", last), at("b", last), at("c", first)]) == last
    assert times.of(web, [at("a", first), at("b", None), {**pod("d"), "status": {}}]) == ""
    times.remove("ns/web")
    times.remove("ns/web")
    assert times.of(web, []) == "2026-01-01T00:00:00Z"


# --- slices


def test_an_endpoint_has_the_node_the_zone_and_the_reference_of_its_pod() -> None:
    node = {"metadata": {"labels": {"topology.kubernetes.io/zone": "z"}}}
    assert endpoint_of(service(), pod("a", "10.0.0.1", "fd00::1"), node, "IPv6") == {
        "addresses": ["fd00::1"],
        "conditions": {"ready": True, "serving": True, "terminating": False},
        "targetRef": {"kind": "Pod", "namespace": "ns", "name": "a", "uid": "u-a"},
        "nodeName": "n1",
        "zone": "z",
    }
    found = endpoint_of(service(), pod(node=""), {"metadata": {}}, "IPv4")
    assert found is not None
    assert not {"nodeName", "zone", "hostname"} & set(found)


def test_ports_have_the_pods_numbers_and_the_services_names_and_protocols() -> None:
    given = [
        {"name": "a", "port": 80, "targetPort": "web", "appProtocol": "h2c"},
        {"name": "b", "port": 81, "protocol": "UDP"},
        {"name": "c", "port": 82, "targetPort": 9},
        {"name": "d", "port": 83, "targetPort": "unknown"},
    ]
    assert ports_of(service(ports=given), pod()) == [
        {"name": "a", "port": 8080, "protocol": "TCP", "appProtocol": "h2c"},
        {"name": "b", "port": 81, "protocol": "UDP"},
        {"name": "c", "port": 9, "protocol": "TCP"},
    ]
    assert ports_of(service(ports=None), pod()) == []


def test_slices_have_the_labels_of_their_service_except_for_the_management_labels() -> None:
    web = service()
    web["metadata"]["labels"] = {"team": "a", HEADLESS: "mine", "kubernetes.io/service-name": "other"}
    mine = {"kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "m"}
    assert labels_of(web, "m") == {"team": "a", **mine}
    web["spec"]["clusterIP"] = "None"
    assert labels_of(web, "m") == {"team": "a", HEADLESS: "", **mine}
    made = new_slice(web, PORTS, "IPv6", "m")
    assert (made["addressType"], made["ports"], made["endpoints"]) == ("IPv6", PORTS, [])
    assert made["metadata"]["generateName"] == "web-"
    assert is_owned(made, web)
    [owner] = made["metadata"]["ownerReferences"]
    for field in ("uid", "kind", "apiVersion"):
        other = {**made, "metadata": {**made["metadata"], "ownerReferences": [{**owner, field: "other"}]}}
        assert not is_owned(other, web)


def test_ports_and_endpoints_are_the_same_in_any_order() -> None:
    one, other = {"name": "a", "port": 1}, {"name": "b", "port": 2, "protocol": "UDP"}
    assert key_of_ports([one, other]) == key_of_ports([other, one]) != key_of_ports([one])
    assert key_of_ports(None) == key_of_ports([]) == ()
    for field, value in (("port", 2), ("name", "c"), ("protocol", "SCTP"), ("appProtocol", "x")):
        assert key_of_ports([{**one, field: value}]) != key_of_ports([one])
    plain = {"addresses": ["1", "2"]}
    assert key_of_endpoint(plain) == key_of_endpoint({"addresses": ["2", "1"], "zone": "z"})
    for more in ({"hostname": "h"}, {"targetRef": {"name": "p"}}, {"targetRef": {"namespace": "n"}}):
        assert key_of_endpoint({**plain, **more}) != key_of_endpoint(plain)
    for field in ("nodeName", "zone", "conditions", "targetRef"):
        assert not is_same_endpoint({**plain, field: "x"}, plain)
    assert is_same_endpoint(plain, {**plain, "hints": {}})


def planned(existing: list[Json], *numbers: int, most: int = 3) -> Plan:
    desired = {key_of_ports(PORTS): (PORTS, endpoints(*numbers))} if numbers else {}
    return plan_family(OWNER, "IPv4", desired, existing, manager="m", most=most)


def names(slices: list[Json]) -> list[str]:
    return sorted(each["metadata"]["name"] for each in slices)


def test_without_endpoints_there_is_one_empty_slice() -> None:
    empty = {**make_slice("a"), "ports": []}
    assert planned([]).create == [{**new_slice(OWNER, [], "IPv4", "m")}]
    kept = planned([empty])
    assert (kept.create, kept.update, kept.delete) == ([], [], [])
    for wrong in (
        {**empty, "ports": PORTS},
        {**empty, "addressType": "IPv6"},
        {**empty, "endpoints": list(endpoints(1).values())},
        {**empty, "metadata": {**empty["metadata"], "labels": {}}},
        {**empty, "metadata": {**empty["metadata"], "ownerReferences": []}},
    ):
        plan = planned([wrong])
        assert (len(plan.create), names(plan.delete)) == (1, ["a"])
    both = planned([empty, {**empty, "metadata": {**empty["metadata"], "name": "b"}}])
    assert (len(both.create), names(both.delete)) == (1, ["a", "b"])


def test_what_is_not_the_services_own_goes_and_changed_labels_come_in() -> None:
    mine, foreign, old = make_slice("a", 1), make_slice("b", 2), make_slice("c", 3)
    foreign["metadata"]["ownerReferences"] = [{"uid": "other", "kind": "Service", "apiVersion": "v1", "name": "web"}]
    old["metadata"]["labels"] = {"old": "x"}
    plan = planned([mine, foreign, old], 1, 3)
    assert (names(plan.delete), names(plan.update), plan.create) == (["b"], ["c"], [])
    assert plan.update[0]["metadata"]["labels"] == mine["metadata"]["labels"]
    assert (plan.added, plan.removed) == (0, 0)


def test_endpoints_that_come_and_go_are_counted_and_changed_ones_written() -> None:
    plan = planned([make_slice("a", 1, 2)], 2, 3, 4)
    assert (plan.added, plan.removed) == (2, 1)
    changed = make_slice("a", 1)
    changed["endpoints"][0]["conditions"] = {"ready": False}
    plan = planned([changed], 1)
    assert [each["endpoints"] for each in plan.update] == [list(endpoints(1).values())]
    total = Plan()
    total.add(planned([make_slice("a", 1, 2)], 2, 3, 4))
    total.add(planned([make_slice("b", 7)], 8))
    assert (total.added, total.removed, names(total.delete), names(total.update)) == (3, 2, ["b"], ["a"])


def test_a_slice_that_is_made_takes_the_name_of_one_that_goes() -> None:
    made, going = [make_slice("x", n) for n in (1, 2)], [make_slice(name) for name in ("a", "b", "c")]
    plan = Plan(create=list(made), delete=list(going))
    plan.recycle()
    assert (plan.create, names(plan.update), names(plan.delete)) == ([], ["a", "b"], ["c"])
    assert {len(each["endpoints"]) for each in plan.update} == {1}
    plan = Plan(create=list(made), delete=going[:1])
    plan.recycle()
    assert (len(plan.create), names(plan.update), plan.delete) == (1, ["a"], [])


def test_slices_that_stay_are_written_again_only_where_hints_change() -> None:
    zoned = make_slice("a", 1)
    zoned["endpoints"][0]["zone"] = "z"
    hinted = {"forZones": [{"name": "z"}]}
    plan = Plan()
    set_hints(plan, [zoned], "PreferSameZone")
    assert [each["endpoints"][0]["hints"] for each in plan.update] == [hinted]
    again, there = Plan(), plan.update[0]
    set_hints(again, [there], "PreferSameZone")
    assert again.update == []
    set_hints(again, [there], "")
    assert [each["endpoints"][0].get("hints") for each in again.update] == [None]
    gone = Plan(delete=[zoned])
    set_hints(gone, [zoned], "PreferSameZone")
    assert gone.update == []
    written = Plan(create=[zoned], update=[{**zoned, "metadata": {"name": "b"}}])
    set_hints(written, [], "PreferSameZone")
    assert [each["endpoints"][0]["hints"] for each in (*written.create, *written.update)] == [hinted, hinted]


def test_a_slice_is_indexed_by_service_and_manager_and_has_a_trigger_time() -> None:
    assert _service_and_manager(make_slice("a")) == ("ns/web/m",)
    assert (
        _service_and_manager({"metadata": {"namespace": "ns", "labels": {"kubernetes.io/service-name": "web"}}}) == ()
    )
    assert _service_and_manager({"metadata": {"namespace": "ns"}}) == ()
    marked = _with_trigger({"metadata": {"annotations": {TRIGGER: "old", "mine": "x"}}}, "new")
    assert marked["metadata"]["annotations"] == {TRIGGER: "new", "mine": "x"}
    assert _with_trigger(marked, "")["metadata"]["annotations"] == {"mine": "x"}
    assert _with_trigger({"metadata": {}}, "")["metadata"]["annotations"] is None


# --- endpoints of pods


@pytest.mark.parametrize(
    ("ready", "leaving", "unready_too", "shown"),
    [(True, False, False, True), (False, False, False, False), (True, True, False, False), (True, True, True, True)],
)
def test_a_pod_that_leaves_still_serves_but_is_ready_only_where_all_are(
    ready: bool, leaving: bool, unready_too: bool, shown: bool
) -> None:
    made = endpoint_of(
        service(publishNotReadyAddresses=unready_too), pod(ready=ready, deleted=TIME if leaving else ""), None, "IPv4"
    )
    assert made is not None
    assert made["conditions"] == {"ready": shown, "serving": ready, "terminating": leaving}
    assert endpoint_of(service(), pod(), None, "IPv6") is None


def test_a_host_name_shows_only_in_the_domain_of_the_service() -> None:
    found = [endpoint_of(service(), pod(hostname="a", subdomain=domain), None, "IPv4") for domain in ("web", "other")]
    assert [(one or {}).get("hostname") for one in found] == ["a", None]


def test_a_named_port_is_that_of_a_container_or_sidecar_with_its_protocol() -> None:
    def container(number: int, protocol: str, **more: Any) -> Json:
        return {"ports": [{"name": "dns", "containerPort": number, "protocol": protocol}], **more}

    one = pod(containers=[container(1, "TCP")])
    one["spec"]["initContainers"] = [container(2, "UDP"), container(3, "UDP", restartPolicy="Always")]
    wanted = service(ports=[{"port": 53, "targetPort": "dns", "protocol": p} for p in ("TCP", "UDP", "SCTP")])
    assert [number for _, number in ports(wanted, one)] == [1, 3]


@pytest.mark.parametrize(
    ("spec", "families"),
    [
        ({"ipFamilies": ["IPv6", "IPv4"]}, ["IPv6", "IPv4"]),
        ({"clusterIP": "fd00::1"}, ["IPv6"]),
        ({"clusterIP": "10.0.0.1"}, ["IPv4"]),
        ({"clusterIP": "None"}, ["IPv4", "IPv6"]),
    ],
)
def test_a_service_has_endpoints_of_its_families_or_of_those_of_its_address(spec: Json, families: list[str]) -> None:
    assert address_types(service(**spec)) == families


def test_hints_are_of_ready_endpoints_and_go_with_the_wish_for_them() -> None:
    one = {"conditions": {"ready": True}, "zone": "a", "nodeName": "n"}
    zone, node = [{"name": "a"}], [{"name": "n"}]
    assert _with_hints(one, "PreferSameZone") == {**one, "hints": {"forZones": zone}}
    assert _with_hints(one, "PreferSameNode") == {**one, "hints": {"forZones": zone, "forNodes": node}}
    assert _with_hints({**one, "hints": {"forZones": zone}}, "") == one
    unready = {**one, "conditions": {"ready": False}}
    assert _with_hints(unready, "PreferSameZone") == unready
