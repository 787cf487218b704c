"""How volumes get their SELinux label: by mount options only with the gate SELinuxMount, or if the object has a policy."""

from __future__ import annotations

import pytest

from apiserver.api.objects import Json
from tests.resources.conftest import Judge

ONLY_RECURSIVE = 'Unsupported value: "MountOption": supported values: "Recursive"'


def make_deployment(policy: str | None) -> Json:
    context = {} if policy is None else {"seLinuxChangePolicy": policy}
    pod = {"containers": [{"name": "c", "image": "i"}], "securityContext": context}
    return {
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod}}
    }


def test_mount_options_need_the_gate() -> None:
    path = "spec.template.spec.securityContext.seLinuxChangePolicy"
    assert Judge().create("deployments", make_deployment("MountOption"))[1] == [f"{path}: {ONLY_RECURSIVE}"]
    with_gate = Judge(gates={"SELinuxMount": True})
    assert with_gate.create("deployments", make_deployment("MountOption"))[1] == []
    both = 'Unsupported value: "": supported values: "MountOption", "Recursive"'
    assert with_gate.create("deployments", make_deployment(""))[1] == [f"{path}: {both}"]


@pytest.mark.parametrize(("before", "count"), [(None, 1), ("Recursive", 0)])
def test_an_object_with_a_policy_may_change_it(judge: Judge, before: str | None, count: int) -> None:
    stored = judge.create_valid("deployments", make_deployment(before))
    errors = judge.update("deployments", stored, make_deployment("MountOption"))[1]
    assert len(errors) == count
