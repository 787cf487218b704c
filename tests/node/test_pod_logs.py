"""What `kubectl logs` shows of containers that only seem to run."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from apiserver.api.objects import Json
from kubedra.client.client import ApiError
from kubedra.pytest_plugin import Kube

pytestmark = pytest.mark.integration


def make_pod(**marks: str) -> Json:
    annotations = {f"kubedra.dev/{name.replace('_', '-')}": value for name, value in marks.items()}
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": annotations}, "spec": spec}


def test_a_log_says_that_the_container_is_emulated_and_how_it_ended(kube: Kube) -> None:
    kube.add_node("n1")
    kube.apply(make_pod(exit_after="0", exit_code="3"))
    kube.wait("pod/p", "phase=Failed")
    first, last = kube.logs("pod/p").splitlines()
    assert first.startswith("container c is emulated")
    assert last == "container c ended with code 3"
    with pytest.raises(ApiError, match='previous terminated container "c" in pod "p" not found'):
        kube.client().request("GET", "/api/v1/namespaces/default/pods/p/log", params={"previous": "true"})


def test_a_log_is_what_the_annotation_says_as_far_as_it_is_asked_for(kube: Kube) -> None:
    kube.add_node("n1")
    kube.apply(make_pod(log="one\ntwo\nthree"))
    kube.wait("pod/p", "phase=Running")
    base = f"{kube.url}/api/v1/namespaces/default/pods/p/log"

    def log(**options: Any) -> str:
        return httpx.get(base, params=options).text

    assert log() == "one\ntwo\nthree\n"
    assert log(tailLines=1) == "three\n"
    assert log(limitBytes=5) == "one\nt"
    assert log(sinceTime="2100-01-01T00:00:00Z") == ""
    stamp, text = log(timestamps="true", tailLines=1).split()
    assert (len(stamp), stamp[-4:], text) == (30, "000Z", "three")


def test_a_log_that_is_followed_ends_with_its_container(kube: Kube) -> None:
    kube.add_node("n1")
    kube.apply(make_pod())
    kube.wait("pod/p", "phase=Running")
    url = f"{kube.url}/api/v1/namespaces/default/pods/p/log"
    with httpx.stream("GET", url, params={"follow": "true"}, timeout=30) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("container c is emulated")
        kube.client().patch("pod/p", {"metadata": {"annotations": {"kubedra.dev/exit-after": "0"}}})
        assert list(lines) == ["container c ended with code 0"]


def test_a_container_that_waits_has_no_log_and_the_answer_says_why(kube: Kube) -> None:
    kube.add_node("n1")
    pod = make_pod()
    pod["spec"]["initContainers"] = [{"name": "first", "image": "i"}]
    pod["metadata"]["annotations"] = {"kubedra.dev/exit-after.first": "3600"}
    kube.apply(pod)
    kube.wait("pod/p", lambda obj: "running" in obj["status"].get("initContainerStatuses", [{"state": {}}])[0]["state"])
    with pytest.raises(ApiError, match='container "c" in pod "p" is waiting to start: PodInitializing'):
        kube.logs("pod/p", container="c")
    assert kube.logs("pod/p", container="first").startswith("container first is emulated")
