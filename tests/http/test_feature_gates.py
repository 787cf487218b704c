"""Feature gates: defaults of each release, settings, and dependencies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.api.features.gates import GATES, RELEASES, FeatureError, Features, parse_gates, parse_release
from apiserver.api.features.other_gates import OTHER_GATES
from apiserver.options.settings import read
from apiserver.registry.catalog.served import RuntimeConfigError, parse_runtime_config, select_served
from apiserver.resources import CATALOG

pytestmark = pytest.mark.integration

releases = st.sampled_from(RELEASES)


@given(releases)
def test_the_defaults_of_every_release_agree_with_each_other(release: tuple[int, int]) -> None:
    features = Features(release)
    assert features.enabled_names() == {
        name for name, gate in GATES.items() if (stage := gate.at(release)) and stage.on
    }


@pytest.mark.parametrize(
    ("name", "on"),
    [
        ("DynamicResourceAllocation", (False, True, True, True)),
        ("DRAAdminAccess", (False, True, True, True)),
        ("DRAPartitionableDevices", (False, False, False, True)),
        ("DRADeviceTaintRules", (False, False, False, False)),
        ("DRAResourceClaimDeviceStatus", (True, True, True, True)),
        ("SchedulerQueueingHints", (True, True, True, True)),
    ],
)
def test_a_gate_has_the_default_of_the_release_that_is_emulated(name: str, on: tuple[bool, ...]) -> None:
    assert tuple(Features(release).enabled(name) for release in RELEASES) == on


def test_a_gate_that_may_be_set_is_set() -> None:
    assert Features((1, 34), {"DynamicResourceAllocation": True, "DRAPartitionableDevices": True}).enabled(
        "DRAPartitionableDevices"
    )
    assert not Features((1, 36), {"DRAPrioritizedList": False}).enabled("DRAPrioritizedList"), "general, but not locked"


@pytest.mark.parametrize(
    ("release", "settings", "message"),
    [
        ((1, 36), {"DynamicResourceAllocation": False}, "cannot set feature gate DynamicResourceAllocation to false, feature is locked to true"),
        ((1, 34), {"DRAListTypeAttributes": True},
         "cannot set feature gate DRAListTypeAttributes to true, feature is PreAlpha at emulated version 1.34, min compatibility version 1.33"),
        ((1, 33), {"DRAListTypeAttributes": False},
         "cannot set feature gate DRAListTypeAttributes to false, feature is PreAlpha at emulated version 1.33, min compatibility version 1.33"),
        ((1, 33), {"DRAAdminAccess": True}, "DRAAdminAccess is enabled, but depends on features that are disabled: [DynamicResourceAllocation]"),
        ((1, 36), {"DRAResourceClaimDeviceStatus": False, "DRAResourceClaimGranularStatusAuthorization": False},
         "DRADeviceBindingConditions is enabled, but depends on features that are disabled: [DRAResourceClaimDeviceStatus]"),
        ((1, 36), {"DRAResourceClaimDeviceStatus": False},
         ("[DRADeviceBindingConditions is enabled, but depends on features that are disabled: [DRAResourceClaimDeviceStatus],"
          " DRAResourceClaimGranularStatusAuthorization is enabled, but depends on features that are disabled: [DRAResourceClaimDeviceStatus]]")),
        ((1, 36), {"WorkloadAwarePreemption": True}, "WorkloadAwarePreemption is enabled, but depends on features that are disabled: [GangScheduling]"),
    ],
)  # fmt: skip
def test_a_setting_that_a_release_refuses_is_refused_in_upstreams_words(
    release: tuple[int, int], settings: dict[str, bool], message: str
) -> None:
    with pytest.raises(FeatureError) as caught:
        Features(release, settings)
    assert str(caught.value) == message


def test_a_locked_gate_may_be_set_to_what_it_is() -> None:
    assert Features((1, 36), {"DynamicResourceAllocation": True}).enabled("DynamicResourceAllocation")


@given(st.booleans())
def test_all_alpha_moves_every_alpha_gate_that_was_not_set_itself(on: bool) -> None:
    release = (1, 36)
    features = Features(release, {"AllAlpha": on, "DRAListTypeAttributes": not on})
    for name, gate in GATES.items():
        stage = gate.at(release)
        if stage is not None and stage.name == "Alpha" and not gate.own:
            assert features.enabled(name) == (on if name != "DRAListTypeAttributes" else not on), name


def test_all_alpha_does_not_enable_kubedras_own_gates() -> None:
    own = {name for name, gate in GATES.items() if gate.own}
    assert own == {"DRAReservedForWorkloads"}
    assert not own & Features((1, 36), {"AllAlpha": True}).enabled_names()
    assert own <= Features((1, 36), dict.fromkeys(own, True)).enabled_names()


def test_all_beta_off_leaves_what_is_general() -> None:
    features = Features((1, 36), {"AllBeta": False})
    assert features.enabled("DRAAdminAccess")
    assert not features.enabled("DRAPartitionableDevices")


def test_a_gate_of_upstream_that_nothing_asks_for_is_kept_apart_and_changes_nothing() -> None:
    features = Features((1, 36), {"WinOverlay": True, "SidecarContainers": True})
    assert features.ignored == ("SidecarContainers", "WinOverlay")
    assert not features.enabled("WinOverlay")
    assert features.enabled_names() == Features((1, 36)).enabled_names()


@pytest.mark.parametrize(
    ("name", "hint"),
    [("DRADeviceTaint", "; did you mean DRADeviceTaints?"), ("winoverlay", "; did you mean WinOverlay?"), ("Nope", "")],
)
def test_a_gate_that_kubernetes_lacks_is_refused_with_the_most_similar_one(name: str, hint: str) -> None:
    with pytest.raises(FeatureError) as raised:
        Features((1, 36), {"DRAAdminAccess": True, name: True})
    assert str(raised.value) == f"unrecognized feature gate: {name}{hint}"


def test_no_gate_is_in_both_tables() -> None:
    assert not OTHER_GATES & {*GATES, "AllAlpha", "AllBeta"}


@given(releases, st.dictionaries(st.sampled_from(sorted(GATES)), st.booleans(), max_size=6))
def test_whatever_is_accepted_keeps_every_rule(release: tuple[int, int], settings: dict[str, bool]) -> None:
    try:
        features = Features(release, settings)
    except FeatureError:
        return
    for name in features.enabled_names():
        stage = GATES[name].at(release)
        assert stage is not None, "a gate of a later release is never on"
        assert all(features.enabled(need) for need in GATES[name].needs)
    for name, value in settings.items():
        assert features.enabled(name) == value


def test_gates_are_read_as_the_flag_spells_them() -> None:
    assert parse_gates(" A=true, B=False,C=1,D=f ,") == {"A": True, "B": False, "C": True, "D": False}
    assert parse_gates("A=true,A=false") == {"A": False}, "the last one counts"
    assert parse_gates("kube:A=true,kube:B=false") == {"A": True, "B": False}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A", "missing bool value for A"),
        ("A=x", 'invalid value of A=x, err: strconv.ParseBool: parsing "x": invalid syntax'),
        ("A=tRUE", 'invalid value of A=tRUE, err: strconv.ParseBool: parsing "tRUE": invalid syntax'),
        ("foo:A=true", "component not registered: foo"),
        (
            "A=true,kube:B=true",
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
        ),
    ],
)
def test_invalid_gates_are_refused_in_upstreams_words(text: str, message: str) -> None:
    with pytest.raises(FeatureError) as caught:
        parse_gates(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("1.35", (1, 35)),
        ("v1.35", (1, 35)),
        ("1.35.0", (1, 35)),
        ("1.035-x", (1, 35)),
        ("kube=1.34", (1, 34)),
        (" kube = 1.34 ", (1, 34)),
        ("", (1, 36)),
    ],
)
def test_a_release_may_be_spelled_in_all_the_usual_ways(text: str, release: tuple[int, int]) -> None:
    assert parse_release(text) == release


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1.37", "emulation version 1.37 is not between [1.33, 1.36.0]"),
        ("2.0", "emulation version 2.0 is not between [1.33, 1.36.0]"),
        (
            "1.32",
            (
                "[emulation version 1.32 is not between [1.33, 1.36.0], minCompatibilityVersion version 1.33 is not"
                " between [1.33, 1.32]]"
            ),
        ),
        ("1.36.2", "patch version not allowed, got: kube=1.36.2"),
        ("one", 'could not parse "one" as version'),
        ("-1.3", 'could not parse "-1.3" as version'),
        ("1", 'illegal version string "1"'),
        ("01.35", 'illegal zero-prefixed version component "01" in "01.35"'),
        ("kubelet=1.35", "component not registered: kubelet"),
        ("1.34,1.35", "duplicate version flag, kube=1.34 and kube=1.35"),
    ],
)
def test_an_unknown_release_is_refused_in_upstreams_words_with_the_known_ones(text: str, message: str) -> None:
    with pytest.raises(FeatureError) as caught:
        parse_release(text)
    assert str(caught.value) == f"{message}; use one of 1.33, 1.34, 1.35, 1.36"


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
