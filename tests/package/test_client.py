"""What tests do with one object, and what they read when something is wrong."""

from pathlib import Path

import pytest

from kubedra import ControlPlane
from kubedra.client.client import ApiError, Client
from kubedra.pytest_plugin import Kube
from tests.package.test_plugin import project, run_pytest
from tests.support.objects import pod_manifest
from tests.support.patience import wait_until

pytestmark = pytest.mark.integration

POD = pod_manifest("web", nodeSelector={"zone": "moon"})
SET = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "web"},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod_manifest("")["spec"]},
    },
}


def test_an_object_is_named_in_one_word_or_two(kube: Kube) -> None:
    kube.apply(POD)
    assert kube.get("pods", "web")["metadata"]["uid"] == kube.get("pod/web")["metadata"]["uid"]
    with pytest.raises(ValueError, match='"pods" names no object'):
        kube.get("pods")


def test_the_status_and_the_scale_of_an_object_are_written(kube: Kube) -> None:
    kube.apply([POD, SET])
    assert kube.patch_status("pod/web", {"reason": "Tried"})["status"]["reason"] == "Tried"
    assert kube.scale("replicaset/web", 3)["kind"] == "Scale"
    assert kube.get("replicaset/web")["spec"]["replicas"] == 3


def test_events_are_those_about_the_object(kube: Kube) -> None:
    kube.add_node("worker")
    kube.apply([POD, {**POD, "metadata": {"name": "other"}}])
    wait_until(lambda: kube.events("pod/other"), "the other pod has an event")
    wait_until(lambda: kube.events("pod/web"), "the pod has an event")
    assert {event["reason"] for event in kube.events("pod/web")} == {"FailedScheduling"}
    assert {event["involvedObject"]["name"] for event in kube.events("pod/web")} == {"web"}
    assert len(kube.events()) >= 2


def test_warnings_of_the_server_are_logged(kube: Kube, caplog: pytest.LogCaptureFixture) -> None:
    kube.apply(POD)
    assert caplog.messages == []
    kube.apply(pod_manifest("old", nodeSelector={"beta.kubernetes.io/os": "linux"}))
    (text,) = caplog.messages
    assert text.startswith("spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use")
    assert text.endswith('"kubernetes.io/os" instead')


def test_logs_that_there_are_not_are_an_error(kube: Kube) -> None:
    with pytest.raises(ApiError, match='pods "nothing" not found'):
        kube.logs("pod/nothing")


@pytest.mark.parametrize("round", [1, 2])
def test_requests_are_those_of_the_test(kube: Kube, round: int) -> None:
    with Client(kube.url, namespace="kube-public", user_agent="my-driver/1") as client:
        client.apply(POD)
        client.get("pod/web")
        with pytest.raises(ApiError):
            client.get("pod/other")
    mine = kube.requests(user_agent="my-driver", resource="pods")
    assert [(r["verb"], r["name"], r["code"]) for r in mine] == [
        ("patch", "web", 201),
        ("get", "web", 200),
        ("get", "other", 404),
    ]
    assert kube.requests(verb="get", code=404, namespace="kube-public") == mine[2:]


def test_what_is_printed_names_the_server(kube: Kube) -> None:
    assert repr(kube.plane) == f"<kubedra.ControlPlane {kube.url} in {kube.plane.data_dir}>"
    assert kube.url in repr(kube)
    assert repr(kube.client()) == f"<kubedra.Client {kube.url} namespace=default>"


def test_a_control_plane_that_was_stopped_says_so(tmp_path: Path) -> None:
    plane = ControlPlane(data_dir=tmp_path)
    with pytest.raises(RuntimeError, match="has not been started"):
        _ = plane.url
    with plane, plane.client() as client:
        plane.stop()
        with pytest.raises(ConnectionError, match=f"^{client.url}: no server responds"):
            client.list("pods")
    with pytest.raises(RuntimeError, match="was stopped"):
        plane.client()
    assert "not running" in repr(plane)


def test_a_failing_tests_report_ends_in_the_test(tmp_path: Path) -> None:
    test = "def test_it(kube):\n    kube.get('pod/x')\n\ndef test_wait(kube):\n    kube.wait('pod/x', 'create', timeout=0.1)\n"
    done = run_pytest(project(tmp_path, test), "-q")
    assert 'pods "x" not found' in done.stdout
    assert "did not reach create" in done.stdout
    assert "def _answer" not in done.stdout
    assert "def wait" not in done.stdout


def test_a_port_where_nobody_listens_is_an_error_that_names_it() -> None:
    with (
        Client("http://127.0.0.1:1") as client,
        pytest.raises(ConnectionError, match=r"^http://127\.0\.0\.1:1: no server"),
    ):
        client.list("pods")
