"""--runtime-config: the served versions, and errors in upstream's words."""

from __future__ import annotations

import pytest

from apiserver.api.features.gates import RELEASES, Features
from apiserver.options.settings import read
from apiserver.registry.catalog.served import RuntimeConfigError, parse_runtime_config, select_served
from apiserver.resources import CATALOG

pytestmark = pytest.mark.integration

NOW, BEFORE = (1, 36), (1, 33)


def versions(
    text: str, release: tuple[int, int] = NOW, group: str = "resource.k8s.io", plural: str = "resourceclaims"
) -> set[str]:
    found = select_served(CATALOG, Features(release), parse_runtime_config(text))
    return {version.name for resource, version in found if (resource.group, resource.plural) == (group, plural)}


def test_by_default_only_stable_versions_are_served() -> None:
    assert versions("") == {"v1"}
    assert versions("", BEFORE) == set()


def test_a_version_is_switched_on_by_name_by_stage_or_with_all() -> None:
    assert versions("resource.k8s.io/v1beta1=true") == {"v1", "v1beta1"}
    assert versions("resource.k8s.io/v1beta1") == {"v1", "v1beta1"}
    assert versions("api/beta=true") == versions("api/all=true") == {"v1", "v1beta1", "v1beta2"}


def test_the_most_specific_setting_wins() -> None:
    assert versions("api/all=false,resource.k8s.io/v1beta1=true") == {"v1beta1"}
    assert versions("api/all=true,api/beta=false") == {"v1"}
    only_slices = "resource.k8s.io/v1=false,resource.k8s.io/v1/resourceslices=true"
    assert versions(only_slices) == set()
    assert versions(only_slices, plural="resourceslices") == {"v1"}


def test_a_switch_is_what_go_takes_for_a_boolean() -> None:
    assert versions("resource.k8s.io/v1beta1=T") == {"v1", "v1beta1"}
    assert versions("resource.k8s.io/v1=0") == set()


def test_an_older_release_has_what_it_had() -> None:
    assert versions("api/all=true", BEFORE) == {"v1beta1", "v1beta2"}


def test_groups_of_the_real_server_that_are_not_served_here_may_be_named() -> None:
    assert versions("apps/v1=false,batch/v1=true,storage.k8s.io/v1beta1=true,resource.k8s.io/v1alpha3=true") == {"v1"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("resource.k8s.io=true", "runtime-config invalid key resource.k8s.io"),
        ("a/b/c/d", "runtime-config invalid key a/b/c/d"),
        ("nope/v1,also.example.com/v2/things", "unknown api groups also.example.com/v2,nope/v1"),
        ("resource.k8s.io/v7=true", "group version resource.k8s.io/v7 that has not been registered"),
        ("api/all=x", "invalid value api/all=x"),
        (
            "resource.k8s.io/v1=x",
            'invalid value of resource.k8s.io/v1: x, err: strconv.ParseBool: parsing "x": invalid syntax',
        ),
        ("api/all=false", "invalid runtime-config with only api/all=false"),
        (
            "resource.k8s.io/v1/ResourceSlices",
            (
                "invalid key resource.k8s.io/v1/ResourceSlices: group/version/resource and resource is always lowercase"
                ' plural, not "ResourceSlices"'
            ),
        ),
    ],
)
def test_a_setting_that_means_nothing_is_refused_in_upstreams_words(text: str, message: str) -> None:
    with pytest.raises(RuntimeConfigError) as caught:
        versions(text)
    assert str(caught.value) == message


def test_a_version_of_a_later_release_cannot_be_switched_on() -> None:
    with pytest.raises(
        RuntimeConfigError,
        match=(
            r"cannot enable version resource.k8s.io/v1 in runtime-config because all the resources have been introduced"
        ),
    ):
        versions("resource.k8s.io/v1=true", BEFORE)


@pytest.mark.parametrize("key", ["v1", "v1/pods", "api/v1", "api/v1/pods", "/v1"])
def test_the_core_group_has_several_names(key: str) -> None:
    assert parse_runtime_config(f"{key}=true,api/legacy=false") == {"/v1": "true"}


@pytest.mark.parametrize(
    ("group", "plural", "stored"),
    [
        ("resource.k8s.io", "resourceclaims", ("v1beta2", "v1beta2", "v1", "v1")),
        ("resource.k8s.io", "devicetaintrules", ("v1alpha3",) * 4),
        ("apps", "deployments", ("v1",) * 4),
    ],
)
def test_the_storage_version_is_known_to_the_release_before(group: str, plural: str, stored: tuple[str, ...]) -> None:
    resource = next(resource for resource in CATALOG if (resource.group, resource.plural) == (group, plural))
    assert tuple(resource.stored_api_version(release) for release in RELEASES) == tuple(
        f"{group}/{version}" for version in stored
    )


def test_discovery_has_the_hash_of_the_storage_version() -> None:
    hashes = {resource.plural: (resource.storage_hash(BEFORE), resource.storage_hash(NOW)) for resource in CATALOG}
    assert hashes["deviceclasses"] == ("weQRMT6DeYM=", "Yk2PTc1Ybxk=")
    assert hashes["events"] == ("r2yiGXH7wu8=", "r2yiGXH7wu8="), "events of both groups are stored as the core group's"
    assert hashes["tokenreviews"] == ("", ""), "nothing is stored"


@pytest.mark.parametrize(
    ("given", "level"),
    [([], 0), (["-v"], 1), (["-vv"], 2), (["-v=4"], 4), (["--v=4"], 4), (["-v", "2"], 2), (["-v", "--port=0"], 1)],
)
def test_how_much_is_logged_is_a_level_or_letters(given: list[str], level: int) -> None:
    settings = read(given)
    assert (settings.verbosity, settings.flags["v"]) == (level, str(level))
