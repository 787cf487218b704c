"""Cases of fault annotations of a node, and of the checkpoint file of claims."""

from __future__ import annotations

import json
import re
import zlib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.kubelet.dra.cache import ClaimCache, ClaimInfo
from controllers.kubelet.dra.checkpoint import CheckpointError, FileCheckpoint, claims_of, document, open_document
from controllers.kubelet.dra.drivers import PreparedDevice
from controllers.kubelet.emulation.annotations import devices_of, missing_images
from controllers.kubelet.emulation.device_faults import NONE, DeviceFaults, device_faults
from kubedra.profiles.pools import Pool
from tests.support.objects import make_annotations

pytestmark = pytest.mark.integration


def node(**annotations: str) -> Json:
    return {"metadata": {"name": "n", "uid": "n", "annotations": make_annotations(**annotations)}}


@pytest.mark.parametrize(
    ("annotations", "faults"),
    [
        ({}, NONE),
        ({"devices": "2"}, NONE),
        ({"prepare_error_devices": "a"}, NONE),
        ({"lost_devices": "a, drv/b ,,"}, DeviceFaults(lost={"a", "drv/b"}, tainted={})),
        ({"tainted_devices": "a=k:NoSchedule, b=k=v:NoExecute, c=k:None, d=:NoSchedule, e=k:Other, f=k"},
         DeviceFaults(lost=set(), tainted={"a": {"key": "k", "effect": "NoSchedule"},
                                           "b": {"key": "k", "value": "v", "effect": "NoExecute"},
                                           "c": {"key": "k", "effect": "None"}})),
        ({"unhealthy_devices": ""}, DeviceFaults(lost=set(), tainted={}, unhealthy={})),
        ({"unhealthy_devices": "a, b=too hot"}, DeviceFaults(lost=set(), tainted={}, unhealthy={"a": "", "b": "too hot"})),
        ({"missing_drivers": "d1, d2"}, DeviceFaults(lost=set(), tainted={}, missing_drivers={"d1", "d2"})),
        ({"prepare_error": "no", "prepare_error_devices": "a", "prepare_takes": "1.5s", "unprepare_error": "never"},
         DeviceFaults(lost=set(), tainted={}, prepare_error="no", prepare_error_devices={"a"},
                      prepare_takes=timedelta(seconds=1.5), unprepare_error="never")),
        ({"prepare_takes": "-3s"}, DeviceFaults(lost=set(), tainted={})),
        ({"prepare_takes": "soon"}, DeviceFaults(lost=set(), tainted={})),
    ],
)  # fmt: skip
def test_faults_are_parsed_from_annotations(annotations: dict[str, str], faults: DeviceFaults) -> None:
    found = device_faults(node(**annotations))
    for name in ("lost", "missing_drivers", "prepare_error_devices"):
        assert set(getattr(found, name)) == set(getattr(faults, name))
    for name in ("tainted", "unhealthy", "prepare_error", "prepare_takes", "unprepare_error"):
        assert getattr(found, name) == getattr(faults, name)
    assert (found is NONE) is (faults is NONE)


def test_an_invalid_taint_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        device_faults(node(tainted_devices="said-once=wrong"))
    [message] = caplog.messages
    assert "said-once=wrong: expected KEY:EFFECT or KEY=VALUE:EFFECT" in message


TAINT = {"key": "k", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("faults", "names", "tainted"),
    [
        (DeviceFaults(), ["a", "b"], []),
        (DeviceFaults(lost={"a"}), ["b"], []),
        (DeviceFaults(lost={"drv/b", "other/a"}), ["a"], []),
        (DeviceFaults(lost={"a", "b"}), [], []),
        (DeviceFaults(tainted={"a": TAINT}), ["a", "b"], ["a"]),
        (DeviceFaults(tainted={"drv/b": TAINT, "other/a": TAINT}), ["a", "b"], ["b"]),
    ],
)
def test_lost_and_tainted_devices_change_the_published_pool(
    faults: DeviceFaults, names: list[str], tainted: list[str]
) -> None:
    own = {"key": "own", "effect": "NoExecute"}
    pool = Pool(({"devices": [{"name": "a", "taints": [own]}, {"name": "b"}]}, {"sharedCounters": []}))
    left = faults.apply("drv", pool)
    devices = [device for part in left.slices for device in part.get("devices") or ()]
    assert [device["name"] for device in devices] == names
    assert [device["name"] for device in devices if TAINT in (device.get("taints") or ())] == tainted
    assert all(own in device["taints"] for device in devices if device["name"] == "a")
    assert [part for part in left.slices if "devices" not in part] == [{"sharedCounters": []}]
    assert (left is pool) is (not faults.lost and not faults.tainted)


@pytest.mark.parametrize(
    ("only", "devices", "refused"),
    [((), ["a"], True), (("a",), ["a", "b"], True), (("a",), ["b"], False), (("drv/a",), ["a"], True),
     (("other/a",), ["a"], False)],
)  # fmt: skip
def test_a_claim_fails_if_it_has_one_of_the_devices(only: tuple[str, ...], devices: list[str], refused: bool) -> None:
    faults = DeviceFaults(prepare_error="no", prepare_error_devices=only)
    assert faults.prepare_error_for("drv", devices) == ("no" if refused else "")


@pytest.mark.parametrize(
    ("unhealthy", "health"),
    [(None, ("Healthy", "")), ({}, ("Healthy", "")), ({"a": "hot"}, ("Unhealthy", "hot")),
     ({"drv/a": ""}, ("Unhealthy", "")), ({"other/a": ""}, ("Healthy", ""))],
)  # fmt: skip
def test_a_device_is_healthy_unless_the_annotation_names_it(
    unhealthy: dict[str, str] | None, health: tuple[str, str]
) -> None:
    assert DeviceFaults(unhealthy=unhealthy).health("drv", "a") == health


def test_a_node_names_its_devices_and_the_images_that_it_cannot_pull() -> None:
    for text, wanted in (("8", ("gpu.example.com", 8)), ("d=3", ("d", 3)), ("0", None), ("d=", None), ("x", None)):
        assert devices_of(node(devices=text)) == wanted
    assert missing_images(node(missing_images="web:2, ,db:1,")) == {"web:2", "db:1"}
    assert missing_images(node()) == missing_images({"metadata": {}}) == frozenset()


def test_a_written_file_is_read_back() -> None:
    devices = (PreparedDevice("p", "d", ("r",), ("v/c=x",), "share"), PreparedDevice("p", "e", (), ()))
    infos = [
        ClaimInfo("u1", "a", "ns", {"y", "x"}, {"drv": devices, "empty": ()}),
        ClaimInfo("u2", "b", "ns", set(), None),
    ]
    data = open_document(document(infos))
    assert claims_of(data) == infos
    first, second = json.loads(data)["ClaimInfoStateList"]
    assert (list(first["PodUIDs"]), second["DriverState"], first["DriverState"]["empty"]) == (
        ["x", "y"], None, {"Devices": None},
    )  # fmt: skip
    assert first["DriverState"]["drv"]["Devices"][1] == {
        "PoolName": "p", "DeviceName": "e", "ShareID": None, "RequestNames": None, "CDIDeviceIDs": None,
    }  # fmt: skip
    assert claims_of(open_document(document(None))) == claims_of(open_document(b"{}")) == claims_of("null") == []
    assert b"\\\\u003c\\\\u0026\\\\u003e" in document([ClaimInfo("<&>", "a", "ns")])


def wrapped(data: Any, checksum: Any = None) -> bytes:
    checksum = zlib.crc32(data.encode()) if checksum is None and isinstance(data, str) else checksum
    return json.dumps({"Data": data, "Checksum": checksum}).encode()


TYPES = "json: cannot unmarshal {} into Go {}"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "unexpected end of JSON input"),
        (b"[]", TYPES.format("array", "value of type state.Checkpoint")),
        (wrapped(1, 0), TYPES.format("number", "struct field Checkpoint.Data of type string")),
        (wrapped(True, 0), TYPES.format("bool", "struct field Checkpoint.Data of type string")),
        (wrapped("{}", "x"), TYPES.format("string", "struct field Checkpoint.Checksum of type uint32")),
        (wrapped("{}", True), TYPES.format("bool", "struct field Checkpoint.Checksum of type uint32")),
        (wrapped("{}", -1), TYPES.format("number -1", "struct field Checkpoint.Checksum of type uint32")),
        (wrapped("{}", 2**32), TYPES.format("number 4294967296", "struct field Checkpoint.Checksum of type uint32")),
        (wrapped("{}", 2**32 - 1), "checkpoint is corrupted"),
        (wrapped("{}", 0), "checkpoint is corrupted"),
    ],
)
def test_an_invalid_file_is_rejected(content: bytes, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        open_document(content)


def of_device(device: Any, *, devices: bool = False) -> Json:
    """Return an entry with one device, or with this value in place of the list of devices."""
    return {"DriverState": {"d": {"Devices": device if devices else [device]}}}


@pytest.mark.parametrize(
    ("entry", "kind", "place"),
    [
        ([], "array", "CheckpointData.ClaimInfoStateList of type state.ClaimInfoState"),
        ({"ClaimUID": 1}, "number", "ClaimInfoState.ClaimInfoStateList.ClaimUID of type types.UID"),
        ({"claimname": True, "Namespace": 1}, "bool", "ClaimInfoState.ClaimInfoStateList.ClaimName of type string"),
        ({"PodUIDs": ["x"]}, "array", "ClaimInfoState.ClaimInfoStateList.PodUIDs of type sets.Set[string]"),
        ({"PodUIDs": {"x": 1}}, "number", "ClaimInfoState.ClaimInfoStateList.PodUIDs of type sets.Empty"),
        ({"DriverState": "x"}, "string", ("ClaimInfoState.ClaimInfoStateList.DriverState of type"
         " map[string]state.DriverState")),
        ({"DriverState": {"d": []}}, "array", ("ClaimInfoState.ClaimInfoStateList.DriverState of type"
         " state.DriverState")),
        (of_device({}, devices=True), "object", ("DriverState.ClaimInfoStateList.DriverState.Devices of type"
         " []state.Device")),
        (of_device(1), "number", "DriverState.ClaimInfoStateList.DriverState.Devices of type state.Device"),
        (of_device({"ShareID": 5}), "number", ("Device.ClaimInfoStateList.DriverState.Devices.ShareID of type"
         " types.UID")),
        (of_device({"RequestNames": "x"}), "string", ("Device.ClaimInfoStateList.DriverState.Devices.RequestNames of"
         " type []string")),
        (of_device({"CDIDeviceIDs": [1]}), "number", ("Device.ClaimInfoStateList.DriverState.Devices.CDIDeviceIDs of"
         " type string")),
    ],
)  # fmt: skip
def test_an_invalid_entry_is_rejected(entry: Any, kind: str, place: str) -> None:
    text = f"json: cannot unmarshal {kind} into Go struct field {place}"
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        claims_of(json.dumps({"ClaimInfoStateList": [entry]}))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("[]", TYPES.format("array", "value of type state.CheckpointData")),
        ('{"kind":5}', TYPES.format("number", "struct field CheckpointData.TypeMeta.kind of type string")),
        ('{"ClaimInfoStateList":{}}', TYPES.format("object", "struct field CheckpointData.ClaimInfoStateList of type"
         " state.ClaimInfoStateList")),
        ("{}x", "invalid character 'x' after top-level value"),
        ('{"a":tru}', "invalid character '}' in literal true (expecting 'e')"),
    ],
)  # fmt: skip
def test_data_of_another_shape_is_rejected(data: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        claims_of(data)


def test_null_is_an_unset_value_everywhere_in_the_data() -> None:
    device = {"ShareID": None, "RequestNames": [None], "PoolName": "p"}
    entries = [None, {"PodUIDs": {"x": None}, "DriverState": {"d": None, "e": {"Devices": [None, device]}}}]
    empty, claim = claims_of(json.dumps({"ClaimInfoStateList": entries}))
    assert empty == ClaimInfo("", "", "", set(), None)
    devices = (PreparedDevice("", ""), PreparedDevice("p", "", ("",)))
    assert claim == ClaimInfo("", "", "", {"x"}, {"d": (), "e": devices})


def test_an_error_of_the_file_system_names_the_file(tmp_path: Path) -> None:
    place = tmp_path / "sub"
    checkpoint = FileCheckpoint(place)
    (place / "dra_manager_state" / "in the way").mkdir(parents=True)
    with pytest.raises(CheckpointError, match=r"GetOrCreate\(\) on checkpoint state: failed to get checkpoint .*read "):
        checkpoint.load()
    with pytest.raises(CheckpointError, match=r"^could not save checkpoint dra_manager_state: open "):
        checkpoint.save([])
    assert [path.name for path in place.iterdir()] == ["dra_manager_state"], "no part of a file is left behind"
    fresh = FileCheckpoint(tmp_path / "fresh")
    assert fresh.load() == []
    assert b"null" in (tmp_path / "fresh" / "dra_manager_state").read_bytes()


def test_a_claim_is_removed_only_if_no_other_has_replaced_it() -> None:
    old, new = ClaimInfo("old", "c", "ns", {"p"}), ClaimInfo("new", "c", "ns")
    cache = ClaimCache([old])
    assert (cache.used_by("p"), cache.used_by("q")) == (True, False)
    cache.add(new)
    cache.remove(old)
    assert cache.get("ns", "c") is new
    cache.remove(new)
    assert list(cache) == []
    two = ClaimInfo("u", "two", "ns", set(), {"d": (), "e": ()}, prepared=True)
    idle = ClaimInfo("v", "idle", "ns", set(), {"d": ()})
    one = ClaimInfo("w", "one", "ns", set(), {"d": ()}, prepared=True)
    assert ClaimCache([two, idle, one]).in_use() == {"<any>": 2, "d": 2, "e": 1}
