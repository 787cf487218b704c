"""Ports of containers on the host network, in pods and in templates."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from tests.resources.conftest import Judge

DETAIL = "must match `containerPort` when `hostNetwork` is true"


def make_spec(**port: Any) -> Json:
    return {"hostNetwork": True, "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, **port}]}]}


def test_pods_default_the_host_port(judge: Judge) -> None:
    stored, errors = judge.create("pods", {"metadata": {"name": "p"}, "spec": make_spec()})
    assert (errors, stored["spec"]["containers"][0]["ports"][0]["hostPort"]) == ([], 80)


@pytest.mark.parametrize("port", [{}, {"hostPort": 80}])
def test_templates_may_leave_the_host_port_to_their_pods(judge: Judge, port: Json) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": make_spec(**port)}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    stored, errors = judge.create("daemonsets", {"spec": spec})
    [stored_port] = stored["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert (errors, stored_port.get("hostPort")) == ([], port.get("hostPort"))


def test_another_host_port_is_refused_in_both(judge: Judge) -> None:
    spec = make_spec(hostPort=81)
    path = "containers[0].ports[0].hostPort"
    error = f"{path}: Invalid value: 81: {DETAIL}"
    assert judge.create("pods", {"metadata": {"name": "p"}, "spec": spec})[1] == [f"spec.{error}"]
    template = {"metadata": {"name": "t"}, "template": {"spec": spec}}
    assert judge.create("podtemplates", template)[1] == [f"template.spec.{error}"]
