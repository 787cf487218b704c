"""Rows of the Table form: the words that kubectl prints."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from apiserver.api.objects import Json
from apiserver.registry.definition.table import row_of, row_of_entry, table_of
from apiserver.resources import CATALOG
from apiserver.storage.log.types import Record
from apiserver.storage.watchcache.entry import Entry
from tests.resources.conftest import Judge, find

NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
CREATED = "2026-01-01T00:00:00Z"


def cells(plural: str, obj: Json) -> dict[str, Any]:
    resource = find(plural)
    whole = {"metadata": {"name": "a", "creationTimestamp": CREATED, **obj.pop("metadata", {})}, **obj}
    return dict(zip((column.name for column in resource.columns), row_of(resource, whole, NOW)["cells"], strict=True))


@pytest.mark.parametrize(
    ("metadata", "status", "state"),
    [
        ({}, {}, "pending"),
        ({}, {"allocation": {}}, "allocated"),
        ({}, {"allocation": {}, "reservedFor": [{}]}, "allocated,reserved"),
        ({"deletionTimestamp": CREATED}, {}, "deleted"),
        ({"deletionTimestamp": CREATED}, {"allocation": {}, "reservedFor": [{}]}, "deleted,allocated,reserved"),
    ],
)
def test_a_claims_state_says_how_far_it_is(metadata: Json, status: Json, state: str) -> None:
    shown = cells("resourceclaims", {"metadata": metadata, "spec": {}, "status": status})
    assert shown == {"Name": "a", "State": state, "Age": "10m"}


def waiting(reason: str) -> Json:
    return {"name": "c", "state": {"waiting": {"reason": reason}}}


def terminated(**state: Any) -> Json:
    return {"name": "c", "state": {"terminated": {"exitCode": 0, **state}}}


RUNNING: Json = {"name": "c", "ready": True, "state": {"running": {}}}


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ({"phase": "Pending"}, "Pending"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        ({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}, "SchedulingGated"),
        ({"phase": "Running", "containerStatuses": [waiting("CrashLoopBackOff")]}, "CrashLoopBackOff"),
        ({"phase": "Failed", "containerStatuses": [terminated(exitCode=3)]}, "ExitCode:3"),
        ({"phase": "Failed", "containerStatuses": [terminated(signal=9)]}, "Signal:9"),
        ({"phase": "Running", "containerStatuses": [terminated(reason="Completed"), RUNNING], "conditions": [{"type": "Ready", "status": "True"}]}, "Running"),
        ({"phase": "Running", "containerStatuses": [terminated(reason="Completed"), RUNNING]}, "NotReady"),
        ({"phase": "Pending", "initContainerStatuses": [waiting("PodInitializing")]}, "Init:0/1"),
        ({"phase": "Pending", "initContainerStatuses": [terminated(reason="Error", exitCode=1)]}, "Init:Error"),
    ],
)  # fmt: skip
def test_a_pods_status_is_the_most_telling_word(status: Json, word: str) -> None:
    initial = [{"name": "c"}] if "initContainerStatuses" in status else []
    spec = {"containers": [{"name": "c"}], "initContainers": initial}
    assert cells("pods", {"spec": spec, "status": status})["Status"] == word


def test_a_pod_that_is_being_deleted_is_terminating_unless_it_is_done() -> None:
    for status, word in (
        ({"phase": "Running"}, "Terminating"),
        ({"phase": "Succeeded"}, "Succeeded"),
        ({"phase": "Running", "reason": "NodeLost"}, "Unknown"),
    ):
        obj = {"metadata": {"deletionTimestamp": CREATED}, "spec": {}, "status": status}
        assert cells("pods", obj)["Status"] == word


def test_restarts_tell_when_the_last_one_was() -> None:
    status = {**RUNNING, "restartCount": 2, "lastState": {"terminated": {"finishedAt": "2026-01-01T00:05:00Z"}}}
    spec = {"containers": [{"name": "c"}], "nodeName": "n"}
    shown = cells("pods", {"spec": spec, "status": {"containerStatuses": [status], "podIPs": [{"ip": "1.2.3.4"}]}})
    expected = {"Ready": "1/1", "Restarts": "2 (5m ago)", "IP": "1.2.3.4", "Node": "n", "Nominated Node": "<none>"}
    assert shown.items() >= expected.items()


def test_sidecars_count_among_the_containers() -> None:
    spec = {"containers": [{"name": "c"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}]}
    status = {"initContainerStatuses": [{"name": "s", "started": True, "ready": True}], "containerStatuses": [RUNNING]}
    assert cells("pods", {"spec": spec, "status": status})["Ready"] == "2/2"


def test_a_finished_pods_row_says_so_in_its_conditions() -> None:
    resource = find("pods")
    obj = {"metadata": {"name": "a"}, "spec": {}, "status": {"phase": "Succeeded"}}
    assert row_of(resource, obj, NOW)["conditions"][0]["reason"] == "Succeeded"
    assert "conditions" not in row_of(resource, {**obj, "status": {"phase": "Running"}}, NOW)


def test_a_node_shows_readiness_roles_and_addresses() -> None:
    shown = cells(
        "nodes",
        {
            "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge"}},
            "spec": {"unschedulable": True},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                "nodeInfo": {"kubeletVersion": "v1.36.2", "kernelVersion": "6.1", "architecture": "amd64"},
            },
        },
    )
    assert (shown["Status"], shown["Roles"]) == ("Ready,SchedulingDisabled", "edge,worker")
    assert (shown["Internal-IP"], shown["External-IP"]) == ("10.0.0.1", "<none>")
    assert (shown["Kernel-Version"], shown["OS-Image"]) == ("6.1 (amd64)", "<unknown>")


def test_an_event_shows_when_it_was_seen_and_how_often() -> None:
    shown = cells("events", {
        "involvedObject": {"kind": "Pod", "name": "p"}, "type": "Normal", "reason": "Started", "message": " ok \n",
        "source": {"component": "kubelet", "host": "n"},
        "firstTimestamp": CREATED, "lastTimestamp": "2026-01-01T00:09:00Z", "count": 3,
    })  # fmt: skip
    assert (shown["Last Seen"], shown["First Seen"], shown["Count"]) == ("60s", "10m", 3)
    assert (shown["Object"], shown["Source"], shown["Message"]) == ("pod/p", "kubelet, n", "ok")


def test_a_table_describes_its_columns_once() -> None:
    resource = find("resourceslices")
    whole = table_of(resource, [], {"resourceVersion": "1"})
    assert [column["name"] for column in whole["columnDefinitions"]] == ["Name", "Node", "Driver", "Pool", "Age"]
    assert table_of(resource, [], {}, columns=False)["columnDefinitions"] is None


@pytest.mark.parametrize(
    ("plural", "rows"), [("resourceslices", []), ("pods", []), ("roles", None), ("limitranges", None)]
)
def test_a_kind_without_columns_of_its_own_shows_no_rows_as_null(plural: str, rows: list[Json] | None) -> None:
    assert table_of(find(plural), [], {})["rows"] == rows
    assert table_of(find(plural), [{"cells": []}], {})["rows"] == [{"cells": []}]


def test_cells_without_a_time_are_made_once_per_entry() -> None:
    resource = find("resourceclaims")
    value = b'{"metadata":{"name":"a","creationTimestamp":"%b"},"spec":{}}' % CREATED.encode()
    entry = Entry(Record(7, "/registry/resourceclaims/ns/a", 7, 0, False, value), orjson.loads)
    assert row_of_entry(resource, entry, NOW)["cells"] == ["a", "pending", "10m"]
    assert row_of_entry(resource, entry, NOW.replace(minute=20))["cells"] == ["a", "pending", "20m"]


def test_every_kind_has_columns_that_bear_an_empty_object(judge: Judge) -> None:
    for resource in CATALOG:
        hub = judge.decoded(resource, {})
        assert len(row_of(resource, hub, NOW)["cells"]) == len(resource.columns), resource.kind


POOLS: list[Json] = [
    {"totalDevices": 8, "availableDevices": 5, "allocatedDevices": 2, "unavailableDevices": 1},
    {"totalDevices": 4, "availableDevices": 4},
    {"validationError": "two slices have one device"},
]


def ended(kind: str, status: str = "True") -> Json:
    return {"conditions": [{"type": kind, "status": status, "lastTransitionTime": CREATED}]}


@pytest.mark.parametrize(
    ("status", "row"),
    [
        (None, ["-", "-", "-", "-", "-", 0, "Pending", "<none>"]),
        ({"pools": POOLS, "poolCount": 3}, ["12", "9", "2", "1", "1", 3, "Pending", "<none>"]),
        ({"pools": POOLS, "poolCount": 3, **ended("Complete")}, ["12", "9", "2", "1", "1", 3, "Complete", "10m"]),
        ({"pools": POOLS, "poolCount": 4, **ended("Complete")}, ["12", "9", "2", "1", "1", 4, "Complete (3/4 pools)", "10m"]),
        ({"pools": POOLS, "poolCount": 4, **ended("Complete", "False")}, ["12", "9", "2", "1", "1", 4, "Pending", "<none>"]),
        ({"pools": POOLS, "poolCount": 4, **ended("Other")}, ["12", "9", "2", "1", "1", 4, "Pending", "<none>"]),
        ({"poolCount": 0, **ended("Complete")}, ["0", "0", "0", "0", "0", 0, "Complete", "10m"]),
        (ended("Failed"), ["-", "-", "-", "-", "-", 0, "Failed", "<none>"]),
        ({"poolCount": 4, **ended("Failed")}, ["-", "-", "-", "-", "-", 4, "Failed", "<none>"]),
    ],
)  # fmt: skip
def test_the_state_of_pools_is_counted_once_it_is_known(status: Json | None, row: list[Any]) -> None:
    obj: Json = {"spec": {"driver": "d"}, **({} if status is None else {"status": status})}
    names = ["Total", "Available", "Allocated", "Unavailable", "Errors", "Pools", "Status", "Completed"]
    expected = {"Name": "a", "Driver": "d", **dict(zip(names, row, strict=True))}
    assert cells("resourcepoolstatusrequests", obj) == expected
