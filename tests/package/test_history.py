"""The history of objects: authors, times and fields of changes, past states, and the stages of pods."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from kubedra import ApiError, ControlPlane
from kubedra.cli import main
from kubedra.client.clock import Clock
from kubedra.pytest_plugin import Kube
from tests.support.objects import pod_manifest

pytestmark = [pytest.mark.integration, pytest.mark.kube(clock="virtual")]

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"level": "1"}}


def test_every_change_has_its_time_author_verb_and_fields(kube: Kube) -> None:
    kube.create(CONFIG)
    kube.advance(minutes=1)
    kube.patch("configmap/settings", {"data": {"level": "2"}})
    kube.apply({**CONFIG, "data": {"level": "3"}}, force=True, field_manager="me")
    kube.delete("configmap/settings")
    changes = kube.history("cm/settings")
    assert [(c["verb"], c["created"], c["deleted"]) for c in changes] == [
        ("create", True, False), ("patch", False, False), ("apply", False, False), ("delete", False, True),
    ]  # fmt: skip
    assert {(c["user"], c["userAgent"]) for c in changes} == {("system:admin", "kubedra")}
    assert [c["manager"] for c in changes] == ["kubedra", "kubedra", "me", ""]
    assert [c["fields"] for c in changes] == [
        None,
        [{"path": "data.level", "old": "1", "new": "2"}],
        [{"path": "data.level", "old": "2", "new": "3"}],
        None,
    ]
    times = [datetime.fromisoformat(c["time"]) for c in changes]
    assert times[1] - times[0] == timedelta(minutes=1)
    assert [c["verb"] for c in kube.history("cm/settings", limit=2)] == ["apply", "delete"]
    objects = kube.history("cm/settings", objects=True)
    assert [c["object"]["data"]["level"] for c in objects] == ["1", "2", "3", "3"]


def test_a_reset_ends_the_history_of_the_test_before(kube: Kube) -> None:
    with pytest.raises(ApiError, match="the history has no configmaps default/settings") as error:
        kube.history("cm/settings")
    assert error.value.code == 404


def test_an_object_can_be_read_as_it_was(kube: Kube) -> None:
    before = kube.revision("-0s")
    kube.create(CONFIG)
    first = kube.get("configmap/settings")
    kube.advance(minutes=2)
    kube.patch("configmap/settings", {"data": {"level": "2"}})
    then = kube.clock.now() - timedelta(minutes=1)
    for moment in (first["metadata"]["resourceVersion"], "-1m", then, timedelta(minutes=1), then.isoformat()):
        assert kube.get("configmap/settings", at=moment) == first
    assert kube.get("configmap", "settings", at="-0s")["data"] == {"level": "2"}
    assert [c["data"] for c in kube.list("configmaps", at="-1m", fieldSelector="metadata.name=settings")] == [
        {"level": "1"}
    ]
    with pytest.raises(ApiError, match=f'configmap "settings" did not exist at revision {before}'):
        kube.get("configmap/settings", at=before)
    kube.advance(minutes=11)  # two compactions
    with pytest.raises(ApiError, match=f"revision {before} is before the history; a server with --history keeps more"):
        kube.get("configmap/settings", at=before)


@pytest.mark.parametrize(
    ("moment", "code", "text"),
    [
        ("2030-01-01T00:00:00Z", 400, "is in the future: the server's time is "),
        ("yesterday", 400, r"'yesterday' is no moment: write a revision \(1234\), a duration before now \(-5m\)"),
        ("-5", 400, "is no moment"),
        ("2020-01-01", 410, "is before the history: the history begins at revision "),
    ],
)
def test_other_moments_are_refused_in_one_line(kube: Kube, moment: str, code: int, text: str) -> None:
    with pytest.raises(ApiError, match=text) as error:
        kube.revision(moment)
    assert (error.value.code, "\n" in str(error.value)) == (code, False)


def test_a_timeline_shows_why_and_how_long_a_pod_waited(kube: Kube) -> None:
    kube.add_node("worker", devices=1)
    kube.apply(pod_manifest("web", nodeSelector={"zone": "moon"}))
    kube.advance(seconds=90)
    kube.patch("node/worker", {"metadata": {"labels": {"zone": "moon"}}})
    kube.wait("pod/web", "condition=Ready")
    found = kube.timeline("pod/web")
    stages = {entry["name"]: entry for entry in found["entries"] if entry["stage"]}
    assert [*stages] == ["created", "queued", "attempt 1", "attempt 2", "bound", "prepared", "running", "ready"]
    assert stages["attempt 1"]["seconds"] >= 90
    assert stages["attempt 1"]["detail"].startswith("unschedulable: 0/1 nodes are available")
    assert stages["attempt 2"]["detail"] == "scheduled: to worker"
    assert stages["bound"]["detail"] == "to worker by kube-scheduler"
    assert "Started: " in found["report"], "the kubelet's events are in the timeline"
    assert kube.history("pod/web")[-2]["subresource"] == "binding"


def test_the_timeline_of_another_object_is_its_changes(kube: Kube) -> None:
    kube.create(CONFIG)
    kube.patch("configmap/settings", {"data": {"level": "2"}})
    assert [(e["name"], e["detail"]) for e in kube.timeline("cm/settings")["entries"]] == [
        ("created", "by kubedra"),
        ("changed", "by kubedra: data.level: 1 → 2"),
    ]


def test_a_failed_wait_shows_the_last_three_changes(kube: Kube) -> None:
    kube.create(CONFIG)
    for level in "234":
        kube.patch("configmap/settings", {"data": {"level": level}})
    with pytest.raises(TimeoutError) as error:
        kube.wait("configmap/settings", "delete", timeout=5)
    first, *_, heading, second, third, fourth = str(error.value).splitlines()
    assert first == "configmap/settings did not reach delete within 5 s"
    assert heading == "last 3 changes:"
    assert [line.partition("Z ")[2] for line in (second, third, fourth)] == [
        f'patch by kubedra: data.level: "{old}" → "{new}"' for old, new in ("12", "23", "34")
    ]


def test_the_report_of_a_failing_test_has_the_timelines_of_the_objects_it_asserted_about(kube: Kube) -> None:
    kube.create(CONFIG)
    for level in range(20):
        kube.patch("configmap/settings", {"data": {"level": f"1{level}"}})
    assert kube.timelines() == "", "the test has not looked at an object"
    kube.get("configmap/settings")
    lines = kube.timelines().splitlines()
    assert lines[0] == "ConfigMap default/settings: present"
    assert lines[2] == "… 11 earlier lines"
    assert (len(lines), lines[-1].endswith("data.level: 118 → 119")) == (13, True)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(kube: Kube, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a command on the test's server and returns exit code and output."""
    monkeypatch.setenv("KUBECONFIG", str(kube.kubeconfig))

    def call(*args: str) -> tuple[int, str, str]:
        code = main(args)
        return code, *capsys.readouterr()

    return call


def test_the_command_get_prints_tables_and_objects_of_a_moment(kube: Kube, run: Run) -> None:
    kube.create(CONFIG)
    kube.advance(minutes=2)
    kube.delete("configmap/settings")
    code, out, _ = run("get", "configmap/settings", "--at", "-1m")
    head, row = out.splitlines()
    assert (code, head.split(), row.split()) == (0, ["NAME", "DATA", "AGE"], ["settings", "1", "2m"])
    assert run("get", "configmaps", "-A", "--at=-1m", "-o", "name")[1].splitlines().count("configmap/settings") == 1
    assert json.loads(run("get", "cm/settings", "--at", "-1m", "-o", "json")[1])["data"] == {"level": "1"}
    head, *rows = run("get", "cm", "-A", "--at", "-1m")[1].splitlines()
    assert head.split()[0] == "NAMESPACE"
    assert any(row.split()[:2] == ["default", "settings"] for row in rows)
    assert "kind: List" in run("get", "cm", "--at", "-1m", "-o", "yaml")[1]
    assert run("get", "cm/settings")[::2] == (1, 'kubedra: cm "settings" not found\n')


def test_the_commands_history_and_timeline_print_text_and_json(kube: Kube, run: Run) -> None:
    kube.create(CONFIG)
    kube.patch("configmap/settings", {"data": {"level": "2"}})
    code, out, _ = run("history", "cm/settings")
    first, second, field = out.splitlines()
    assert code == 0
    assert first.endswith("  create  user system:admin, manager kubedra")
    assert second.endswith("  patch  user system:admin, manager kubedra")
    assert field == '    data.level: "1" → "2"'
    assert [c["verb"] for c in json.loads(run("history", "cm/settings", "-o", "json")[1])] == ["create", "patch"]
    code, out, _ = run("timeline", "cm/settings")
    assert out.splitlines()[0] == "ConfigMap default/settings: present"
    assert "verb: create" in run("history", "cm/settings", "-o", "yaml")[1]


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (("history", "pod"), 2, '"pod" names no object: write "pod/NAME"'),
        (("timeline", "pod/none"), 1, "the history has no pods default/none"),
        (("history", "thing/x"), 1, 'the server does not have a resource type "thing"'),
        (("get", "pods", "--at", "tomorrow"), 2, "'tomorrow' is no moment: "),
        (("get", "pods", "--at", "-9h"), 1, "'-9h' is before the history: "),
    ],
)
def test_a_wrong_argument_is_one_line(run: Run, args: tuple[str, ...], code: int, text: str) -> None:
    found, out, error = run(*args)
    assert (found, out) == (code, "")
    assert error.startswith(f"kubedra: {text}")
    assert error.count("\n") == 1


@pytest.mark.kube(clock="real")
def test_authors_and_times_survive_a_restart(tmp_path: Path) -> None:
    options = {"storage": "sqlite", "data_dir": tmp_path, "clock": "virtual"}
    with ControlPlane(**options) as plane, plane.client() as client:  # type: ignore[arg-type]
        client.create(CONFIG)
        Clock(lambda: client).advance(minutes=3)
        client.patch("configmap/settings", {"data": {"level": "2"}})
        before = client.history("cm/settings")
    with ControlPlane(**options) as plane, plane.client() as client:  # type: ignore[arg-type]
        assert client.history("cm/settings") == before
        now = Clock(lambda: client).now()
        Clock(lambda: client).advance(minutes=1)
        # Virtual time has begun again, so the newest revision of that time is of this run.
        assert int(client.revision(now)) > int(before[-1]["revision"])
        assert client.get("cm/settings", at=before[0]["revision"])["data"] == {"level": "1"}
