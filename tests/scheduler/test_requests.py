"""Resource requests of pods."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.helpers.pod_requests import ASSUMED, pod_requests
from apiserver.api.objects import Json


def make_container(name: str = "c", restart: str = "", **requests: str) -> Json:
    return {"name": name, "resources": {"requests": requests}, **({"restartPolicy": restart} if restart else {})}


def total(*containers: Json, init: list[Json] | None = None, **spec: Any) -> dict[str, int]:
    return pod_requests({"spec": {"containers": list(containers), "initContainers": init or [], **spec}})


def test_containers_add_up_in_millicores_and_bytes() -> None:
    assert total(make_container(cpu="1", memory="1Gi"), make_container(cpu="250m")) == {"cpu": 1250, "memory": 2**30}


def test_fractions_are_rounded_up() -> None:
    assert total(make_container(cpu="0.1m", memory="1500m")) == {"cpu": 1, "memory": 2}


def test_init_containers_count_by_their_maximum() -> None:
    assert total(make_container(cpu="2"), init=[make_container(cpu="1"), make_container(cpu="3")]) == {"cpu": 3000}


def test_sidecars_add_to_the_containers_and_to_the_init_containers_after_them() -> None:
    init = [
        make_container("early", cpu="4"),
        make_container("side", "Always", cpu="1"),
        make_container("late", cpu="4"),
    ]
    assert total(make_container(cpu="2"), init=init) == {"cpu": 5000}
    assert total(make_container(cpu="4"), init=init[:2]) == {"cpu": 5000}


def test_pod_level_requests_replace_those_of_containers_and_overhead_comes_on_top() -> None:
    found = total(
        make_container(cpu="2", **{"example.com/x": "1"}),
        resources={"requests": {"cpu": "1"}},
        overhead={"cpu": "100m"},
    )
    assert found == {"cpu": 1100, "example.com/x": 1}


def test_scoring_assumes_default_requests() -> None:
    pod = {"spec": {"containers": [make_container(), make_container(cpu="1")]}}
    assert pod_requests(pod, ASSUMED) == {"cpu": 1100, "memory": 2 * 200 * 2**20}


@pytest.mark.parametrize(
    ("conditions", "cpu"), [([], 2000), ([{"type": "PodResizePending", "reason": "Infeasible"}], 1000)]
)
def test_a_resize_counts_in_full_until_it_is_found_infeasible(conditions: list[Json], cpu: int) -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1"}}
    status = {"containerStatuses": [container], "conditions": conditions}
    assert pod_requests({"spec": {"containers": [make_container(cpu="2")]}, "status": status}) == {"cpu": cpu}
