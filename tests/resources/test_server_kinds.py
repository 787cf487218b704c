"""Kinds that describe servers: APIServices, StorageVersions, LeaseCandidates."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from tests.resources.conftest import Judge


def api(**spec: Any) -> Json:
    whole = {"group": "a.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1, **spec}
    return {"metadata": {"name": f"{whole['version']}.{whole['group']}"}, "spec": whole}


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({}, []),
        ({"group": ""}, []),
        ({"group": "", "version": "v2"}, ["group: Required value: only v1 may have an empty group and it better be legacy kube"]),
        ({"groupPriorityMinimum": 20001}, ["groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000"]),
        ({"caBundle": "eA=="}, ['caBundle: Invalid value: "1 bytes": local APIServices may not have a caBundle']),
        ({"service": {"name": "s", "port": 0}}, ["service.namespace: Required value",
            "service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive"]),
        ({"service": {"name": "s", "namespace": "n"}, "caBundle": "eA==", "insecureSkipTLSVerify": True},
            ["insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present"]),
    ],
)  # fmt: skip
def test_an_api_is_served_here_or_by_a_service(judge: Judge, spec: Json, wrong: list[str]) -> None:
    assert judge.create("apiservices", api(**spec))[1] == ["spec." + text for text in wrong]


def test_an_api_service_is_named_by_version_and_group_and_a_local_one_is_available(judge: Judge) -> None:
    stored, _ = judge.create("apiservices", api())
    assert stored["status"]["conditions"][0]["reason"] == "Local"
    assert judge.create("apiservices", {**api(), "metadata": {"name": "a"}})[1] == [
        'metadata.name: Invalid value: "a": must be `spec.version+"."+spec.group`: "v1.a.example.com"'
    ]
    cell = {column.name: column.cell for column in judge.find("apiservices").columns}["Available"]
    assert cell(stored) == "True"
    away = {"type": "Available", "status": "False", "reason": "ServiceNotFound"}
    assert cell({"status": {"conditions": [away]}}) == "False (ServiceNotFound)"


DISAGREE = "should be nil if servers do not agree on the same encoding version, or if there is no server reporting the supported versions yet"
UNREADABLE = "individual served version : v2 must be included in decodableVersions : [v1]"


def server(name: str, *versions: str, served: tuple[str, ...] = ()) -> Json:
    made = {"apiServerID": name, "encodingVersion": versions[0], "decodableVersions": list(versions)}
    return made | ({"servedVersions": list(served)} if served else {})


@pytest.mark.parametrize(
    ("status", "wrong"),
    [
        ({"storageVersions": [server("a", "v1", "g/v2", served=("g/v2",))], "commonEncodingVersion": "v1"}, []),
        ({"storageVersions": [server("a", "v1"), server("b", "v2", "v1")]}, []),
        ({"storageVersions": [server("a", "v1"), server("b", "v2")], "commonEncodingVersion": "v1"},
            ['commonEncodingVersion: Invalid value: "v1": ' + DISAGREE]),
        ({"storageVersions": [server("a", "v1")]}, ["commonEncodingVersion: Invalid value: null: the common encoding version is v1"]),
        ({"storageVersions": [server("a", "v1", served=("v2",))], "commonEncodingVersion": "v1"},
            ['storageVersions[0].servedVersions[0]: Invalid value: "v2": ' + UNREADABLE]),
        ({"conditions": [{"type": "A", "status": "True", "reason": "R"}]}, ["[0].message: Required value"]),
    ],
)  # fmt: skip
def test_a_server_reads_what_it_writes_and_serves(judge: Judge, status: Json, wrong: list[str]) -> None:
    stored, _ = judge.create("storageversions", {"metadata": {"name": "g.things"}})
    found = judge.update("storageversions", stored, {"status": status}, status=True)[1]
    assert found == [("status" if text.startswith("[") else "status.") + text for text in wrong]


def test_a_storage_version_is_named_by_group_and_resource(judge: Judge) -> None:
    name = "metadata.name: Invalid value: "
    assert judge.create("storageversions", {"metadata": {"name": "a"}})[1] == [
        f'{name}"a": name must be in the form of <group>.<resource>'
    ]
    (error,) = judge.create("storageversions", {"metadata": {"name": "a.1"}})[1]
    assert error.startswith(f'{name}"a.1": the resource segment a DNS-1035 label must consist of')


def candidate(**spec: Any) -> Json:
    whole = {"leaseName": "l", "binaryVersion": "1.36.0", "emulationVersion": "1.36.0", **spec}
    return {"spec": {"strategy": "OldestEmulationVersion", **whole}}


def test_a_candidate_stands_for_one_lease_with_a_program_that_is_not_older_than_what_it_emulates(judge: Judge) -> None:
    stored = judge.create_valid("leasecandidates", candidate())
    assert judge.update("leasecandidates", stored, candidate(leaseName="m"))[1] == [
        'spec.leaseName: Invalid value: "m": field is immutable'
    ]
    assert judge.create("leasecandidates", candidate(binaryVersion="1.35.9"))[1] == [
        'spec.binaryVersion: Invalid value: "1.35.9": must be greater than or equal to `emulationVersion`'
    ]
    assert judge.create("leasecandidates", candidate(emulationVersion="", strategy="a/b"))[1] == []
    assert judge.create("leasecandidates", candidate(emulationVersion=""))[1] == [
        "spec.emulationVersion: Required value: must be specified when `strategy` is 'OldestEmulationVersion'"
    ]
