"""The usage of containers and nodes, as annotations set it."""

import pytest

from apiserver.api.objects import Json
from apiserver.resources.metrics.usage import container_usage, node_usage


def pod(**usage: str) -> Json:
    """Build a pod with the containers a and b. `cpu__a="1"` is the annotation `usage.cpu.a`."""
    annotations = {f"kubedra.dev/usage.{name.replace('__', '.')}": text for name, text in usage.items()}
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "a"}, {"name": "b"}]}}


def cpu(found: Json) -> dict[str, str]:
    return {name: str(amounts["cpu"]) for name, amounts in container_usage(found).items()}


@pytest.mark.parametrize(
    ("usage", "found"),
    [
        ({}, {}),
        ({"cpu": "250m"}, {"a": "250m", "b": "0"}),
        ({"cpu__b": "100m"}, {"a": "0", "b": "100m"}),
        ({"cpu": "250m", "cpu__a": "100m"}, {"a": "100m", "b": "150m"}),
        ({"cpu": "250m", "cpu__a": "100m", "cpu__b": "50m"}, {"a": "200m", "b": "50m"}),
        ({"cpu": "250m", "cpu__a": "1"}, {"a": "1", "b": "0"}),
        ({"cpu": "much"}, {}),
        ({"cpu": "-1"}, {}),
        ({"memory": "1Gi"}, {"a": "0", "b": "0"}),
    ],
)
def test_the_usage_of_a_pod_is_that_of_its_containers(usage: dict[str, str], found: dict[str, str]) -> None:
    assert cpu(pod(**usage)) == found


def test_a_node_uses_what_its_annotation_or_its_pods_set() -> None:
    pods = [pod(cpu="250m", memory="1Gi"), pod(), pod(cpu__b="1", memory="512Mi")]
    bare: Json = {"metadata": {}}
    assert {name: str(amount) for name, amount in node_usage(bare, pods).items()} == {
        "cpu": "1250m",
        "memory": "1536Mi",
    }
    assert {name: str(amount) for name, amount in node_usage(bare, []).items()} == {"cpu": "0", "memory": "0"}
    own: Json = {"metadata": {"annotations": {"kubedra.dev/usage.memory": "8Gi"}}}
    assert {name: str(amount) for name, amount in node_usage(own, pods).items()} == {"cpu": "1250m", "memory": "8Gi"}
