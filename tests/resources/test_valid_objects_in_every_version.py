"""Every valid object survives a round trip through every version of its kind, and defaults are stable."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.api.codec.codec import decode, encode, loads
from apiserver.api.features.gates import GATES
from apiserver.cel import compile as compile_expression
from apiserver.cel import device_environment
from tests.resources.conftest import NOW, Judge, find
from tests.resources.valid_objects import SPECS

# The first compilation sets up the engine, which is no business of a single example.
compile_expression("true", device_environment((1, 36), {}, stored=False))

EVERYTHING = {name: True for name, gate in GATES.items() if (stage := gate.at((1, 36))) and not stage.locked}
PAIRS = [(plural, version.name) for plural in SPECS for version in find(plural).versions]


def through(version: Any, hub: dict[str, Any]) -> dict[str, Any]:
    """Return the object after a client of that version has read it and sent it back."""
    body = loads(encode(version.from_hub(orjson.loads(encode(hub)))))
    decoded = decode(version.schema, body.value, body)
    assert decoded.problems == []
    before = deepcopy(decoded.obj)
    version.fill(decoded.obj, NOW)
    assert decoded.obj == before, "what was stored has its defaults"
    back: dict[str, Any] = version.to_hub(decoded.obj)
    return back


@pytest.mark.parametrize(("plural", "name"), PAIRS, ids=[f"{plural}-{name}" for plural, name in PAIRS])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_valid_object_comes_back_from_every_version(plural: str, name: str, data: Any) -> None:
    resource = find(plural)
    judge = Judge(gates=EVERYTHING)
    namespace = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    judge.objects = {("", "namespaces", "", "ns"): namespace}
    stored = judge.create_valid(plural, {"spec": data.draw(SPECS[plural])})
    version = resource.version(name)
    assert version is not None
    assert through(version, stored) == stored
    unchanged = judge.update_valid(plural, stored, through(version, stored))
    assert unchanged["spec"] == stored["spec"]
