"""Device health of a node: reports of drivers, their timeout, the file, and the status of pods."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from apiserver.api.objects import Json
from controllers.kubelet.dra.cache import ClaimCache, ClaimInfo
from controllers.kubelet.dra.drivers import PreparedDevice
from controllers.kubelet.dra.health import FILE_NAME, TIMEOUT, Health, HealthCache, container_statuses, pods_of, report

pytestmark = pytest.mark.integration

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def make_report(device: str = "d", state: str = "Healthy", message: str = "", timeout: int = 0) -> Health:
    return report("p", device, state, message, timeout)


@pytest.mark.parametrize(("seconds", "kept"), [(-1, 30), (0, 30), (1, 1), (90, 90)])
def test_a_timeout_that_is_not_positive_means_the_default(seconds: int, kept: int) -> None:
    assert make_report(timeout=seconds).timeout == timedelta(seconds=kept)


@pytest.mark.parametrize(
    ("text", "kept"), [("x" * 1024, "x" * 1024), ("x" * 1025, "x" * 1021 + "..."), ("é" * 513, "é" * 510 + "\ufffd...")]
)
def test_a_message_has_at_most_1024_bytes(text: str, kept: str) -> None:
    assert make_report(message=text).message == kept


def test_a_report_is_valid_until_its_timeout() -> None:
    cache = HealthCache()
    cache.update("drv", [make_report("d", "Unhealthy", "hot", 10)], NOW)
    for moment, state, message in ((after(0), "Unhealthy", "hot"), (after(10), "Unhealthy", "hot"),
                                   (after(10.001), "Unknown", "")):  # fmt: skip
        known = cache.get("drv", "p", "d", moment)
        assert (known.pool, known.device, known.state, known.message) == ("p", "d", state, message)
    for driver, pool, device in (("other", "p", "d"), ("drv", "q", "d"), ("drv", "p", "e")):
        unknown = cache.get(driver, pool, device, NOW)
        assert (unknown.pool, unknown.device, unknown.state) == (pool, device, "Unknown")


@pytest.mark.parametrize(
    ("then", "changes"),
    [
        (make_report(), False),
        (make_report(state="Unhealthy"), True),
        (make_report(message="m"), True),
        (make_report(timeout=5), True),
    ],
)
def test_a_different_report_is_a_change(then: Health, changes: bool) -> None:
    cache = HealthCache()
    assert [item.state for item in cache.update("drv", [make_report()], NOW)] == ["Healthy"]
    assert bool(cache.update("drv", [then], after(20))) is changes
    assert cache.get("drv", "p", "d", after(40 if then.timeout == TIMEOUT else 24)).state == then.state


def test_a_device_that_is_no_longer_reported_becomes_unknown_once() -> None:
    cache = HealthCache()
    cache.update("drv", [make_report("a", message="m"), make_report("b", timeout=600)], NOW)
    assert cache.update("drv", [], after(30)) == []
    [changed] = cache.update("drv", [], after(31))
    assert (changed.device, changed.state, changed.message, changed.updated) == ("a", "Unknown", "", after(31))
    assert cache.update("drv", [], after(90)) == []


def test_a_cleared_driver_has_no_health(tmp_path: Path) -> None:
    cache = HealthCache(tmp_path)
    cache.update("drv", [make_report()], NOW)
    cache.update("other", [make_report()], NOW)
    cache.clear("drv")
    cache.clear("unheard of")
    assert cache.get("drv", "p", "d", NOW).state == "Unknown"
    assert set(json.loads((tmp_path / FILE_NAME).read_text())) == {"other"}


def test_the_file_equals_the_kubelets_and_is_read_at_the_next_start(tmp_path: Path) -> None:
    cache = HealthCache(tmp_path)
    cache.update("drv", [make_report("b"), make_report("a", "Unhealthy", "hot", 45)], after(0.25))
    entry = {"PoolName": "p", "DeviceName": "a", "Health": "Unhealthy", "LastUpdated": "2026-01-01T12:00:00.25Z",
             "HealthCheckTimeout": 45_000_000_000, "Message": "hot"}  # fmt: skip
    text = (tmp_path / FILE_NAME).read_text()
    assert json.loads(text)["drv"]["Devices"]["p/a"] == entry
    assert text.startswith('{"drv":{"Devices":{"p/a":{"PoolName":"p",')
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    again = HealthCache(tmp_path)
    assert again.document() == cache.document()
    assert again.get("drv", "p", "a", after(45)).state == "Unhealthy"
    cache.update("drv", [make_report("b"), make_report("a", "Unhealthy", "hot", 45)], NOW)
    assert (tmp_path / FILE_NAME).read_text() == text, "what has not changed is not written"


def test_a_file_with_times_of_go_is_read(tmp_path: Path) -> None:
    entries = {
        "p/a": {"PoolName": "p", "DeviceName": "a", "Health": "Healthy",
                "LastUpdated": "2026-01-01T13:00:00.123456789+01:00", "HealthCheckTimeout": 0},
        "p/b": {"PoolName": "p", "DeviceName": "b", "LastUpdated": "2026-01-01T12:00:00Z",
                "HealthCheckTimeout": 5_000_000_000},
    }  # fmt: skip
    (tmp_path / FILE_NAME).write_text(json.dumps({"drv": {"Devices": entries}, "bare": {"Devices": None}}))
    cache = HealthCache(tmp_path)
    first, second = (cache.get("drv", "p", name, NOW) for name in "ab")
    assert (first.state, first.updated, first.timeout) == ("Healthy", after(0.123456), TIMEOUT)
    assert (second.state, second.message, second.timeout) == ("Unknown", "", timedelta(seconds=5))


@pytest.mark.parametrize("content", ["", "[1]", "null", '{"drv": {"Devices": {"p/a": {}}}}', '{"drv": 1}'])
def test_an_invalid_file_is_ignored(content: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    assert HealthCache(tmp_path).document() == {}
    assert len(caplog.messages) == (content != "null")


def test_a_failed_write_of_the_file_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = HealthCache(tmp_path)
    (tmp_path / FILE_NAME / "in the way").mkdir(parents=True)
    cache.update("drv", [make_report()], NOW)
    assert cache.get("drv", "p", "d", NOW).state == "Healthy"
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME], "no part of a file is left behind"
    assert "device health will be lost on restart" in caplog.text


def device(name: str, *requests: str, cdi: tuple[str, ...] = ()) -> PreparedDevice:
    return PreparedDevice("p", name, requests, cdi)


def held(name: str, *devices: PreparedDevice, driver: str = "drv", pods: tuple[str, ...] = ("u",)) -> ClaimInfo:
    return ClaimInfo(f"u-{name}", name, "ns", set(pods), {driver: devices})


def test_the_pods_of_a_device_are_those_of_its_claims() -> None:
    cache = ClaimCache([held("a", device("d"), pods=("one", "two")), held("b", device("e"), pods=("three",)),
                        held("c", device("d"), driver="other", pods=("four",)),
                        ClaimInfo("u", "never", "ns", {"five"}, None)])  # fmt: skip
    assert pods_of(cache, "drv", [make_report("d")]) == {"one", "two"}
    assert pods_of(cache, "drv", [make_report("d"), make_report("e")]) == {"one", "two", "three"}
    assert pods_of(cache, "drv", [report("q", "d", "Healthy", "", 0)]) == set()


def pod(*uses: Json, **entries: str) -> Json:
    claims = [{"name": name, "resourceClaimName": claim} for name, claim in entries.items()]
    containers = [{"name": "c", "resources": {"claims": list(uses)}}, {"name": "plain"}]
    return {"metadata": {"name": "pod", "namespace": "ns", "uid": "u"},
            "spec": {"containers": containers, "resourceClaims": claims}}  # fmt: skip


def resources_status(of: Json, *claims: ClaimInfo, before: Json | None = None, messages: bool = True) -> list[Json]:
    health = HealthCache()
    health.update("drv", [make_report("d", "Unhealthy", "hot"), make_report("e")], NOW)
    statuses = [{"name": "c", **(before or {})}, {"name": "plain"}]
    first, plain = container_statuses(of, statuses, ClaimCache(claims), health, NOW, messages=messages)
    assert plain == {"name": "plain"}
    found: list[Json] = first["allocatedResourcesStatus"]
    return found


def test_the_status_of_a_container_has_the_devices_of_its_requests() -> None:
    claim = held("c1", device("d", "one", cdi=("x", "y")), device("e", "two"), device("f"))
    hot = {"resourceID": "x", "health": "Unhealthy", "message": "hot"}
    well, unknown = {"resourceID": "drv/p/e", "health": "Healthy"}, {"resourceID": "drv/p/f", "health": "Unknown"}
    for request, name, resources in (
        ("", "claim:r", [hot, well, unknown]),
        ("one", "claim:r/one", [hot, unknown]),
        ("two/sub", "claim:r/two/sub", [well, unknown]),
    ):
        use = {"name": "r", **({"request": request} if request else {})}
        assert resources_status(pod(use, r="c1"), claim) == [{"name": name, "resources": resources}]
    [entry] = resources_status(pod({"name": "r", "request": "one"}, r="c1"), claim, messages=False)
    assert entry["resources"][0] == {"resourceID": "x", "health": "Unhealthy"}


def test_a_device_of_two_requests_is_listed_once_and_empty_entries_are_omitted() -> None:
    twice = held("c1", device("d"), device("d"))
    assert len(resources_status(pod({"name": "r"}, r="c1"), twice)[0]["resources"]) == 1
    assert resources_status(pod({"name": "r"}, r="c1"), held("c1")) == []
    assert resources_status(pod({"name": "r"}, r="not held"), twice) == []


def test_earlier_entries_stay_without_new_reports() -> None:
    before = {"allocatedResourcesStatus": [{"name": "claim:old", "resources": [{"resourceID": "z"}]},
                                           {"name": "claim:r", "resources": [{"resourceID": "z"}]}]}  # fmt: skip
    found = resources_status(
        pod({"name": "gone"}, {"name": "r"}, gone="no", r="c1"), held("c1", device("e")), before=before
    )
    assert [entry["name"] for entry in found] == ["claim:old", "claim:r"]
    assert found[1]["resources"] == [{"resourceID": "drv/p/e", "health": "Healthy"}]
