"""Logs of emulated containers."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from apiserver.api.objects import Json
from kubedra.client.client import ApiError
from kubedra.pytest_plugin import Kube
from tests.support.objects import make_annotations

pytestmark = pytest.mark.integration


LOG = "/api/v1/namespaces/default/pods/p/log"


@pytest.fixture
def kube(kube: Kube) -> Kube:
    """Add a node to the control plane."""
    kube.add_node("n1")
    return kube


def make_pod(**annotations: str) -> Json:
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    metadata = {"name": "p", "annotations": make_annotations(**annotations)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def test_a_log_reports_that_the_container_is_emulated_and_its_exit_code(kube: Kube) -> None:
    kube.apply(make_pod(exit_after="0", exit_code="3"))
    kube.wait("pod/p", "phase=Failed")
    first, last = kube.logs("pod/p").splitlines()
    assert first.startswith("container c is emulated")
    assert last == "container c ended with code 3"
    with pytest.raises(ApiError, match='previous terminated container "c" in pod "p" not found'):
        kube.client().request("GET", LOG, params={"previous": "true"})


def test_a_log_is_the_annotated_text_within_the_options(kube: Kube) -> None:
    kube.apply(make_pod(log="one\ntwo\nthree"))
    kube.wait("pod/p", "phase=Running")

    def log(**options: Any) -> str:
        return httpx.get(f"{kube.url}{LOG}", params=options).text

    assert log() == "one\ntwo\nthree\n"
    assert log(tailLines=1) == "three\n"
    assert log(limitBytes=5) == "one\nt"
    assert log(sinceTime="2100-01-01T00:00:00Z") == ""
    stamp, text = log(timestamps="true", tailLines=1).split()
    assert (len(stamp), stamp[-4:], text) == (30, "000Z", "three")


def test_a_followed_log_ends_with_its_container(kube: Kube) -> None:
    kube.apply(make_pod())
    kube.wait("pod/p", "phase=Running")
    with httpx.stream("GET", f"{kube.url}{LOG}", params={"follow": "true"}, timeout=30) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("container c is emulated")
        kube.client().patch("pod/p", {"metadata": {"annotations": {"kubedra.dev/exit-after": "0"}}})
        assert list(lines) == ["container c ended with code 0"]


def test_the_log_of_a_waiting_container_is_an_error(kube: Kube) -> None:
    pod = make_pod(exit_after__first="3600")
    pod["spec"]["initContainers"] = [{"name": "first", "image": "i"}]
    kube.apply(pod)
    kube.wait("pod/p", lambda obj: "running" in obj["status"].get("initContainerStatuses", [{"state": {}}])[0]["state"])
    with pytest.raises(ApiError, match='container "c" in pod "p" is waiting to start: PodInitializing'):
        kube.logs("pod/p", container="c")
    assert kube.logs("pod/p", container="first").startswith("container first is emulated")
