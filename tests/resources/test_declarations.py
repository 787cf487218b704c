"""Kinds declare what upstream declares.

`declared.json` has the releases that introduced, deprecated and removed each type, the resources that a kube-apiserver
1.36 serves by default, and its discovery of each with all of them on (`python -m tools.fuzz.declared` writes it).
Endpoints are deprecated by a warning of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from apiserver.api.features.gates import RELEASES
from apiserver.api.objects import Json
from apiserver.resources import CATALOG
from tests.support.server import Running, serve

Release = tuple[int, int] | None
DECLARED: dict[str, Json] = json.loads(Path(__file__).with_name("declared.json").read_text())
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
VERSIONS = {
    f"{resource.group}/{version.name}/{resource.plural}": version
    for resource in CATALOG
    for version in resource.versions
}


def test_every_version_of_every_kind_is_in_the_table() -> None:
    assert VERSIONS.keys() == DECLARED.keys()


@pytest.mark.parametrize("name", DECLARED)
def test_a_version_comes_and_goes_with_the_releases_of_upstream(name: str) -> None:
    version, declared = VERSIONS[name], DECLARED[name]
    introduced = declared["introduced"] and tuple(declared["introduced"])
    # What is older than all our releases was always there.
    assert introduced is None or version.introduced in (introduced, (1, 0) if introduced < RELEASES[0] else introduced)
    for given, ours in ((declared["deprecated"], version.deprecated), (declared["removed"], version.removed)):
        # What is announced for later releases need not be known here.
        assert ours == (given and tuple(given)) or (ours is None and tuple(given) > RELEASES[-1])
    assert version.on_by_default is declared["by_default"]


@pytest.fixture(scope="module")
def everything() -> Iterator[Running]:
    with serve("--runtime-config=api/all=true", "--feature-gates=AllAlpha=true,AllBeta=true") as running:
        yield running


def test_discovery_tells_of_each_kind_what_a_real_server_tells(everything: Running) -> None:
    wire, found = everything.wire(), {}
    for root in ("/api", "/apis"):
        for group in wire.get(root, Accept=DISCOVERY).json["items"]:
            for version in group["versions"]:
                for resource in version["resources"]:
                    name = group["metadata"].get("name", "")
                    found[f"{name}/{version['version']}/{resource['resource']}"] = resource
    served = {name for name, version in VERSIONS.items() if version.removed is None or version.removed > RELEASES[-1]}
    wrong = {
        name: (found.get(name), DECLARED[name]["discovery"])
        for name in sorted(served)
        if found.get(name) != DECLARED[name]["discovery"]
    }
    assert wrong == {}
