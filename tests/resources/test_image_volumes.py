"""Volumes of images, in pods and in templates."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from tests.resources.conftest import Judge


def make_spec(**image: Any) -> Json:
    return {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v", "image": image}]}


@pytest.mark.parametrize("image", [{}, {"reference": ""}])
def test_only_pods_require_the_reference(judge: Judge, image: Json) -> None:
    template = {"metadata": {"name": "t"}, "template": {"spec": make_spec(**image)}}
    assert judge.create("podtemplates", template)[1] == []
    # The server has cached the template's spec as valid.
    pod = {"metadata": {"name": "p"}, "spec": make_spec(**image)}
    assert judge.create("pods", pod)[1] == ["spec.volumes[0].image.reference: Required value"]


def test_the_pull_policy_is_validated_in_both(judge: Judge) -> None:
    spec = make_spec(reference="r", pullPolicy="X")
    error = 'volumes[0].image.pullPolicy: Unsupported value: "X": supported values: "Always", "IfNotPresent", "Never"'
    assert judge.create("pods", {"metadata": {"name": "p"}, "spec": spec})[1] == [f"spec.{error}"]
    template = {"metadata": {"name": "t"}, "template": {"spec": spec}}
    assert judge.create("podtemplates", template)[1] == [f"template.spec.{error}"]
