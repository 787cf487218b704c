"""EventRateLimit: how often Events may be written."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver.admission.plugins.event_rate_limit import EventRateLimit
from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.options.flags import SettingsError
from apiserver.options.settings import read
from tests.support.server import HeldTime, serve

pytestmark = pytest.mark.integration

START = datetime(2026, 1, 1, tzinfo=UTC)


def write(
    plugin: EventRateLimit, second: float = 0.0, *, namespace: str = "a", user: str = "u", thing: str = "t", **more: Any
) -> str:
    """Return the message that refuses a write of an Event; empty if it is allowed."""
    event = {"source": {"component": "c"}, "involvedObject": {"name": thing}}
    ctx = SimpleNamespace(
        now=START + timedelta(seconds=second), user=SimpleNamespace(name=user), **{"dry_run": False, **more}
    )
    attributes: Any = SimpleNamespace(ctx=ctx, namespace=namespace, obj=event)
    try:
        plugin.validate(attributes)
    except StatusError as error:
        return error.message.removeprefix("Too many requests: ")
    return ""


def limited(kind: str, qps: int = 2, burst: int = 1, **more: int) -> EventRateLimit:
    return EventRateLimit([{"type": kind, "qps": qps, "burst": burst, **more}])


def test_a_limit_refills_with_time_up_to_its_burst() -> None:
    plugin = limited("Server", qps=2, burst=3)
    full = "limit reached on type Server for key "
    assert [write(plugin, second) for second in (0, 0, 0, 0)] == ["", "", "", full]
    assert [write(plugin, second) for second in (0.49, 0.5, 0.5)] == [full, "", full]
    assert [write(plugin, 100.0) for _ in range(4)] == ["", "", "", full]
    assert write(plugin, 100.0, dry_run=True) == ""


@pytest.mark.parametrize(
    ("kind", "other", "key"),
    [("Namespace", {"namespace": "b"}, "a"), ("User", {"user": "v"}, "u"), ("SourceAndObject", {"thing": "s"}, "ct")],
)
def test_each_limit_has_its_own_keys_and_all_hold(kind: str, other: dict[str, Any], key: str) -> None:
    plugin = limited(kind)
    assert [write(plugin), write(plugin, **other)] == ["", ""]
    assert write(plugin) == f"limit reached on type {kind} for key {key}"
    both = EventRateLimit([{"type": each, "qps": 1, "burst": 1} for each in ("Server", kind)])
    write(both)
    text = f"[limit reached on type Server for key , limit reached on type {kind} for key {key}]"
    assert write(both) == text


def test_the_least_recently_used_key_is_dropped() -> None:
    plugin = limited("Namespace", cacheSize=2)
    for namespace in "abac":
        write(plugin, namespace=namespace)
    assert write(plugin, namespace="a") != ""
    assert write(plugin, namespace="b") == ""


def told(folder: Path, limits: list[Json]) -> str:
    said = {"apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration", "limits": limits}
    file = folder / "admission.json"
    plugins = [{"name": "EventRateLimit", "configuration": said}]
    kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
    file.write_text(json.dumps({**kind, "plugins": plugins}))
    return f"--admission-control-config-file={file}"


def test_a_server_with_the_plugin_refuses_events_of_the_core_group(tmp_path: Path) -> None:
    flag = told(tmp_path, [{"type": "Namespace", "qps": 1, "burst": 1}])
    with serve("--enable-admission-plugins=EventRateLimit", flag, time=HeldTime()) as running:
        wire = running.wire()

        def post(name: str) -> int:
            about = {"namespace": "default", "kind": "Pod", "name": "p"}
            event = {"metadata": {"name": name}, "involvedObject": about}
            return wire.post("/api/v1/namespaces/default/events", event).status

        assert [post("a"), post("b")] == [201, 429]
        wire.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}})


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ([], r"limits: Invalid value: \[\]: must not be empty"),
        ([{"type": "Pod", "qps": 1, "burst": 1}], 'type: Unsupported value: "Pod"'),
        ([{"type": "User", "qps": 1}], r"limits\[0\].burst: Invalid value: 0: must be positive"),
        ([{"type": "User", "qps": 1, "burst": 1, "cacheSize": -1}], "cacheSize: Invalid value: -1: must not be"),
    ],
)
def test_invalid_limits_are_refused_at_the_start(tmp_path: Path, limits: list[Json], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        read(["--enable-admission-plugins=EventRateLimit", told(tmp_path, limits)])
    with pytest.raises(SettingsError, match="couldn't init admission plugin"):
        read(["--enable-admission-plugins=EventRateLimit"])
