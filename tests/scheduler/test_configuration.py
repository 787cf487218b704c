"""KubeSchedulerConfigurations: their effects and their errors."""

from __future__ import annotations

import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from apiserver.api.features.gates import Features
from apiserver.api.objects import Json
from controllers.runtime.kinds import EVENTS
from controllers.scheduler.config.arguments import Arguments, read_arguments
from controllers.scheduler.config.configuration import Configuration, parse
from controllers.scheduler.config.fields import ConfigurationError
from controllers.scheduler.cycle.plugins import PluginDependencies, default_plugins
from controllers.scheduler.cycle.profiles import arrange, check, load
from controllers.scheduler.framework.framework import Plugin
from tests.scheduler.cluster import Cluster
from tests.scheduler.world import World
from tests.support.objects import info, make_node, make_pod
from tests.support.virtual import passes
from tests.support.wire import ROOT, command, environment

pytestmark = pytest.mark.integration

ENABLED = Features().enabled
FIT = "NodeResourcesFit"


def document(*profiles: Json, **fields: Any) -> Json:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return {**head, **({"profiles": list(profiles)} if profiles else {}), **fields}


def profile(plugins: Json | None = None, name: str = "default-scheduler", **args: Json) -> Json:
    config = [{"name": plugin, "args": values} for plugin, values in args.items()]
    return {"schedulerName": name, "plugins": plugins or {}, "pluginConfig": config}


def names(*names: str) -> list[Json]:
    return [{"name": name} for name in names]


def plugins_of(plugins: Json) -> tuple[Plugin, ...]:
    cluster = Cluster()
    settings = parse(document(profile(plugins))).profiles[0]
    return arrange(default_plugins(PluginDependencies(cache=cluster.cache, devices=cluster.devices)), settings)


def arguments(**args: Any) -> Arguments:
    return read_arguments(parse(document(profile(None, **args))).profiles[0], ENABLED)


def cluster_with(*nodes: Json, **args: Any) -> Cluster:
    """Build a cluster whose plugins have these arguments."""
    return Cluster(*nodes, arguments=arguments(**args))


def test_an_empty_configuration_means_the_defaults() -> None:
    assert parse(document()) == Configuration()
    expected = [(plugin.name, plugin.weight) for plugin in Cluster().evaluator.plugins]
    assert [(plugin.name, plugin.weight) for plugin in plugins_of({})] == expected
    assert arguments() == arguments(DynamicResources={"filterTimeout": None}) == Arguments()


def test_backoffs_and_the_percentage_of_nodes_are_read() -> None:
    found = parse(
        document(
            {"schedulerName": "a", "percentageOfNodesToScore": 0}, {"schedulerName": "b"},
            percentageOfNodesToScore=40, podInitialBackoffSeconds=2, podMaxBackoffSeconds=60,
        )
    )  # fmt: skip
    assert (found.first_backoff, found.last_backoff) == (timedelta(seconds=2), timedelta(seconds=60))
    assert found.percentage == 40
    assert [settings.percentage for settings in found.profiles] == [0, None]


def test_a_plugin_is_disabled_everywhere_or_at_one_point() -> None:
    assert "TaintToleration" not in [p.name for p in plugins_of({"multiPoint": {"disabled": names("TaintToleration")}})]
    no_taints = {"disabled": names("TaintToleration")}
    (left,) = [p for p in plugins_of({"score": no_taints, "preScore": no_taints}) if p.name == "TaintToleration"]
    assert left.filter is not None
    assert left.score is None
    only = {"disabled": names("*"), "enabled": names("NodeResourcesFit", "PrioritySort", "DefaultBinder")}
    assert [p.name for p in plugins_of({"multiPoint": only})] == ["NodeResourcesFit"]
    scoring = {"disabled": names("*"), "enabled": names("ImageLocality")}
    kept = [p.name for p in plugins_of({"score": scoring, "preScore": scoring}) if p.has_score]
    assert kept == ["ImageLocality"]


@pytest.mark.parametrize(
    "name", ["DynamicResources", "ImageLocality", "NodeAffinity", "NodeResourcesBalancedAllocation"]
)
def test_these_plugins_score_without_pre_score(name: str) -> None:
    everything = {"disabled": names("*")}
    only = {"score": {**everything, "enabled": names(name)}, "preScore": everything}
    (plugin,) = [p for p in plugins_of(only) if p.has_score]
    (whole,) = [p for p in plugins_of({}) if p.name == name]
    assert plugin.name == name
    assert plugin.pre_score is not None
    assert whole.pre_score is not None
    silent = plugins_of({"score": {"disabled": names(name)}})
    assert not [p for p in silent if p.name == name and (p.has_score or p.pre_score is not None)]


def test_taints_do_not_score_without_pre_score() -> None:
    with pytest.raises(ConfigurationError, match="TaintToleration needs preScore for score: disable both"):
        plugins_of({"preScore": {"disabled": names("*")}})


def test_weights_come_from_the_point_then_from_multi_point_then_from_upstream() -> None:
    def weights(plugins: Json) -> dict[str, int]:
        return {plugin.name: plugin.weight for plugin in plugins_of(plugins)}

    general = {"enabled": [{"name": "NodeAffinity", "weight": 7}, {"name": "ImageLocality", "weight": 4}]}
    found = weights({"multiPoint": general, "score": {"enabled": [{"name": "ImageLocality", "weight": 9}]}})
    assert (found["NodeAffinity"], found["ImageLocality"], found["TaintToleration"]) == (7, 9, 3)
    again = {"enabled": names("TaintToleration")}
    assert weights({"multiPoint": again})["TaintToleration"] == 3
    assert weights({"score": again})["TaintToleration"] == 3
    assert weights({"multiPoint": {**again, "disabled": names("TaintToleration")}})["TaintToleration"] == 1


def test_filters_that_a_profile_names_run_first() -> None:
    node = make_node("n", cpu="0", taints=[{"key": "k", "effect": "NoSchedule"}])
    pod = info(requests={"cpu": "1"})
    assert Cluster(node).refusal(pod) == "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
    first = {"filter": {"enabled": names("NodeResourcesFit")}}
    assert Cluster(node, plugins=first).refusal(pod) == "0/1 nodes are available: 1 Insufficient cpu."


def test_full_nodes_can_be_preferred_and_other_resources_scored() -> None:
    nodes = (make_node("busy", extra={"example.com/x": "4"}), make_node("idle", extra={"example.com/x": "4"}))
    busy = make_pod(requests={"cpu": "1", "memory": "2Gi", "example.com/x": "2"})
    pod = info(requests={"example.com/x": "1"})

    def score(strategy: Json) -> dict[str, int]:
        fit = {"scoringStrategy": strategy}
        return cluster_with(*nodes, NodeResourcesFit=fit).on("busy", busy).totals(pod)

    x_alone = {"type": "MostAllocated", "resources": [{"name": "example.com/x", "weight": 5}]}
    assert score(x_alone) == {"busy": 75, "idle": 25}
    least = {"type": "LeastAllocated", "resources": [{"name": "example.com/x", "weight": 5}]}
    assert score(least) == {"busy": 25, "idle": 75}
    both = {"resources": [{"name": "cpu", "weight": 1}, {"name": "example.com/x", "weight": 3}]}
    assert score(both)["idle"] == (97 + 3 * 75) // 4


def test_nodes_are_scored_by_a_shape_of_their_use() -> None:
    shape = [{"utilization": 20, "score": 0}, {"utilization": 60, "score": 10}, {"utilization": 90, "score": 4}]
    strategy = {
        "type": "RequestedToCapacityRatio",
        "resources": [{"name": "example.com/x", "weight": 3}],
        "requestedToCapacityRatio": {"shape": shape},
    }
    for wanted, score in ((1, 0), (2, 0), (5, 75), (6, 100), (7, 80), (9, 40), (10, 40)):
        node = make_node("n", extra={"example.com/x": "10"})
        cluster = cluster_with(node, NodeResourcesFit={"scoringStrategy": strategy})
        assert cluster.totals(info(requests={"example.com/x": str(wanted)})) == {"n": score}, wanted


def test_the_added_affinity_of_a_profile_applies_to_every_pod() -> None:
    in_b = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
    on_ssd = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    added = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [in_b]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": on_ssd}],
    }
    nodes = (
        make_node("a", labels={"zone": "a", "disk": "s"}), make_node("b1", labels={"zone": "b"}),
        make_node("b2", labels={"zone": "b", "disk": "s"}),
    )  # fmt: skip
    cluster = cluster_with(*nodes, NodeAffinity={"addedAffinity": added})
    assert cluster.place(info()) == "b2"
    text = cluster.refusal(info(nodeSelector={"zone": "a"}))
    assert text == (
        "0/3 nodes are available: 1 node(s) didn't match scheduler-enforced node affinity, "
        "2 node(s) didn't match Pod's node affinity/selector."
    )


def test_more_than_two_resources_are_balanced_by_their_distance_from_the_mean() -> None:
    resources = ("cpu", "memory", "example.com/x")
    balanced = {"resources": [{"name": name, "weight": 1} for name in resources]}
    node = make_node("n", cpu="10", memory="10Gi", extra={"example.com/x": "10"})
    only = {"score": {"disabled": names("*"), "enabled": names("NodeResourcesBalancedAllocation")}}
    cluster = Cluster(node, arguments=arguments(NodeResourcesBalancedAllocation=balanced), plugins=only)
    # Equal use scores fully. Resources that the pod does not request count only if they are cpu or memory.
    assert cluster.totals(info(requests={"cpu": "3", "memory": "3Gi", "example.com/x": "3"})) == {"n": 75}
    assert cluster.totals(info(requests={"cpu": "9", "example.com/x": "0"})) == {"n": 50 + (50 + 55 - 100) // 2}
    totals = cluster.totals(info(requests={"cpu": "9", "memory": "0", "example.com/x": "1"}))
    assert totals == {"n": 50 + (50 + 59 - 100) // 2}


def test_ignored_resources_are_not_counted() -> None:
    for name, values in (("ignoredResources", ["example.com/x"]), ("ignoredResourceGroups", ["example.com"])):
        cluster = cluster_with(make_node("n"), NodeResourcesFit={name: values})
        assert cluster.place(info(requests={"example.com/x": "1"})) == "n"
        assert "Insufficient other.org/x" in cluster.refusal(info(requests={"other.org/x": "1"}))


def test_spreading_has_the_constraints_that_are_given() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    args = {"defaultingType": "List", "defaultConstraints": [constraint]}
    cluster = cluster_with(make_node("a", labels={"zone": "1"}), make_node("b", labels={"zone": "2"}, pods="0"),
                         PodTopologySpread=args)  # fmt: skip
    cluster.belongs_together("app")
    cluster.on("a", make_pod(labels={"app": "x"}))
    assert "1 node(s) didn't match pod topology spread constraints" in cluster.refusal(info(labels={"app": "x"}))
    assert cluster.place(info(labels={"app": "y"})) == "a"


async def test_each_profile_serves_the_pods_that_name_it_and_reports_under_its_name() -> None:
    packing = {"scoringStrategy": {"type": "MostAllocated"}}
    configuration = parse(document(profile(), profile(None, "packing", NodeResourcesFit=packing)))

    async with World("scheduler", configuration=configuration) as world:
        await world.add(make_node("big", cpu="64", memory="64Gi"), make_node("small"))
        for name, scheduler in (("spread", "default-scheduler"), ("packed", "packing")):
            await world.add(make_pod(name, requests={"cpu": "1", "memory": "2Gi"}, schedulerName=scheduler))
        assert await world.node_of("spread") == "big"
        assert await world.node_of("packed") == "small"
        await world.add(make_pod("foreign", schedulerName="another"))
        await passes(1)
        events = await world.items(EVENTS)
        reporters = {event["regarding"]["name"]: event["reportingController"] for event in events}
        assert reporters == {"spread": "default-scheduler", "packed": "packing"}
        assert not (await world.pod("foreign"))["spec"].get("nodeName")


def test_nodes_without_the_topology_key_of_a_constraint_score_lowest() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    args = {"defaultingType": "List", "defaultConstraints": [constraint]}
    cluster = cluster_with(make_node("in", labels={"zone": "1"}), make_node("out"), PodTopologySpread=args)
    cluster.belongs_together("app")
    totals = cluster.totals(info(labels={"app": "x"}))
    assert totals["in"] - totals["out"] == 200


def test_the_example_of_the_howto_loads(tmp_path: Path) -> None:
    page = (ROOT / "docs/howto/scheduler-configuration.md").read_text()
    example = tmp_path / "scheduler.yaml"
    example.write_text(page.partition("```yaml\n")[2].partition("```")[0])
    found = load(example, ENABLED)
    assert [settings.name for settings in found.profiles] == ["default-scheduler", "packing"]


SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
INVALID: list[tuple[Json, str]] = [
    ({"kind": "Other"}, "must be a KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1"),
    ({"extenders": [{}]}, "extenders[0].urlPrefix: must be an http:// or https:// address"),
    ({"profils": []}, "profils: unknown field"),
    ({"percentageOfNodesToScore": 101}, "percentageOfNodesToScore: must be an integer from 0 to 100"),
    ({"podMaxBackoffSeconds": 1, "podInitialBackoffSeconds": 2}, "podMaxBackoffSeconds: must be greater than or equal"),
    ({"profiles": [{}, {}]}, "profiles: duplicate schedulerName default-scheduler"),
    ({"profiles": [{"plugins": {"filters": {}}}]}, "profiles[0].plugins.filters: unknown field"),
    ({"profiles": [profile({"filter": {"enabled": names("Mine")}})]}, "plugins.filter.enabled: unknown plugin Mine"),
    ({"profiles": [profile({"multiPoint": {"enabled": names("TopologyPlacementGenerator")}})]}, "unknown plugin TopologyPlacementGenerator, or its feature gate is off"),
    ({"profiles": [profile({"bind": {"disabled": names("*")}})]}, "DefaultBinder cannot be disabled"),
    ({"profiles": [profile({"preFilter": {"disabled": names("NodePorts")}})]}, "NodePorts needs preFilter for filter"),
    ({"profiles": [profile(None, TopologyPlacementGenerator={})]}, "unknown plugin TopologyPlacementGenerator, or its feature gate is off"),
    ({"profiles": [profile(None, NodeAffinity={"addedAffinity": {"x": {}}})]}, "addedAffinity.x: unknown field"),
    ({"profiles": [profile(None, NodeResourcesBalancedAllocation={"resources": [{"name": "cpu", "weight": 2}]})]},
     "resources[0].weight: must be 1"),
    ({"profiles": [profile(None, DynamicResources={"filterTimeout": "soon"})]}, "filterTimeout: must be a duration"),
    ({"apiVersion": "kubescheduler.config.k8s.io/v2"}, "must be a KubeSchedulerConfiguration of kubescheduler"),
    ({"parallelism": 0}, "parallelism: must be an integer from 1 to 2147483647"),
    ({"parallelism": 2**31}, "parallelism: must be an integer from 1 to 2147483647"),
    ({"podInitialBackoffSeconds": 0}, "podInitialBackoffSeconds: must be an integer from 1"),
    ({"podMaxBackoffSeconds": True}, "podMaxBackoffSeconds: must be an integer from 1"),
    ({"percentageOfNodesToScore": "5"}, "percentageOfNodesToScore: must be an integer from 0 to 100"),
    ({"profiles": {}}, "profiles: must be a list"),
    ({"profiles": [[]]}, "profiles[0]: must be an object"),
    ({"profiles": [profile(name="a"), profile(name="b"), profile(name="b")]}, "duplicate schedulerName b"),
    ({"profiles": [{"schedulerName": ""}]}, "profiles[0].schedulerName: must be a name"),
    ({"profiles": [{"schedulerName": 5}]}, "profiles[0].schedulerName: must be a name"),
    ({"profiles": [{"percentageOfNodesToScore": 101}]}, "profiles[0].percentageOfNodesToScore: must be an integer"),
    ({"profiles": [{"pluginConfig": [{}]}]}, "profiles[0].pluginConfig[0].name: must be a plugin's name, without duplicates"),
    ({"profiles": [{"pluginConfig": [{"name": "A"}, {"name": "A"}]}]}, "pluginConfig[1].name: must be a plugin's name"),
    ({"profiles": [{"pluginConfig": [{"name": "A", "args": []}]}]}, "pluginConfig[0].args: must be an object"),
    ({"profiles": [profile(None, NodeAffinity={"kind": "X"})]}, "args.kind: must be NodeAffinityArgs"),
    ({"profiles": [profile(None, NodeAffinity={"apiVersion": "v1"})]}, "args.apiVersion: must be kubescheduler.config."),
    ({"profiles": [profile({"score": {"enabled": names("A", "A")}})]}, "plugins.score.enabled: duplicate plugin name"),
    ({"profiles": [profile({"score": {"enabled": [{}]}})]}, "score.enabled[0].name: must be a plugin's name"),
    ({"profiles": [profile({"score": {"enabled": [{"name": "NodeAffinity", "weight": -1}]}})]}, "enabled[0].weight: must"),
    ({"profiles": [profile(None, InterPodAffinity={"ignorePreferredTermsOfExistingPods": 1})]},
     "InterPodAffinityArgs.ignorePreferredTermsOfExistingPods: must be true or false"),
    ({"profiles": [profile(None, InterPodAffinity={"hardPodAffinityWeight": 101})]}, "from 0 to 100"),
    ({"profiles": [profile(None, DefaultPreemption={"minCandidateNodesPercentage": 101})]}, "from 0 to 100"),
    ({"profiles": [profile(None, DefaultPreemption={"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0})]},
     "minCandidateNodesPercentage and minCandidateNodesAbsolute cannot both be 0"),
    ({"profiles": [profile(None, PodTopologySpread={"defaultConstraints": [SPREAD]})]}, "needs defaultingType List"),
    *(
        ({"profiles": [profile(None, PodTopologySpread={"defaultingType": "List", "defaultConstraints": [wrong]})]}, text)
        for wrong, text in (
            ({**SPREAD, "topologyKey": ""}, "defaultConstraints[0].topologyKey: is required"),
            ({**SPREAD, "maxSkew": 0}, "defaultConstraints[0].maxSkew: must be an integer from 1"),
            ({**SPREAD, "whenUnsatisfiable": "Never"}, "must be one of DoNotSchedule, ScheduleAnyway"),
            ({**SPREAD, "labelSelector": {}}, "defaultConstraints[0].labelSelector: unknown field"),
        )
    ),
    ({"profiles": [profile(None, PodTopologySpread={"defaultingType": "Some"})]}, "must be one of System, List"),
    *(
        ({"profiles": [{"pluginConfig": [{"name": name, "args": {"mine": 1}}]}]}, f"{name}Args.mine: unknown field")
        for name in ("DefaultPreemption", "DynamicResources", "InterPodAffinity", "PodTopologySpread", FIT)
    ),
    ({"profiles": [profile(None, NodeResourcesFit={"scoringStrategy": {"mine": 1}})]}, "scoringStrategy.mine: unknown"),
    ({"profiles": [{"mine": 1}]}, "profiles[0].mine: unknown field"),
    ({"profiles": [{"pluginConfig": [{"name": "A", "mine": 1}]}]}, "pluginConfig[0].mine: unknown field"),
    ({"profiles": [profile({"score": {"mine": []}})]}, "plugins.score.mine: unknown field"),
    ({"profiles": [profile({"score": {"enabled": [{"name": "A", "mine": 1}]}})]}, "enabled[0].mine: unknown field"),
    ({"profiles": [profile(None, NodeResourcesFit={"ignoredResources": [1]})]}, "ignored resources and groups must be strings"),
    ({"profiles": [profile(None, NodeResourcesFit={"ignoredResourceGroups": "a"})]}, "ignoredResourceGroups: must be a list"),
    *(
        ({"profiles": [profile(None, NodeResourcesFit={"scoringStrategy": {"resources": [wrong]}})]}, text)
        for wrong, text in (
            ({}, "resources[0].name: must be a resource name"),
            ({"name": "cpu", "weight": 0}, "resources[0].weight: must be an integer from 1 to 100"),
            ({"name": "cpu", "weight": 101}, "resources[0].weight: must be an integer from 1 to 100"),
        )
    ),
]  # fmt: skip


def test_the_ends_of_ranges_are_accepted() -> None:
    ends = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1, "percentageOfNodesToScore": 100}
    found = parse(document(parallelism=2**31 - 1, **ends))
    check(found, ENABLED)
    assert (found.percentage, found.first_backoff) == (100, found.last_backoff)


@pytest.mark.parametrize(("fields", "text"), INVALID, ids=[text[:40] for _, text in INVALID])
def test_an_invalid_field_is_rejected_by_name(fields: Json, text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check(parse(document(**fields)), ENABLED)
    assert text in str(caught.value)


def test_an_invalid_file_at_start_is_a_one_line_error_with_exit_code_2(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(yaml.safe_dump(document(extenders=[{}])))
    flags = ("--attached", "--port=0", f"--data-dir={tmp_path}/data", "--storage=memory", f"--config={path}")
    done = subprocess.run(
        command(*flags, "--controllers=scheduler"), env=environment(), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.endswith(f"--config: {path}: extenders[0].urlPrefix: must be an http:// or https:// address\n")
    done = subprocess.run(command(*flags), env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "--config: needs the scheduler" in done.stderr


def test_plugins_for_placements_are_configured_where_their_gate_is_on() -> None:
    def is_enabled(name: str) -> bool:
        return name == "TopologyAwareWorkloadScheduling" or ENABLED(name)

    points = {"disabled": names("*")}, {"enabled": names("TopologyPlacementGenerator")}
    given = profile(dict(zip(("placementScore", "placementGenerate"), points, strict=True)))
    cluster = Cluster()
    parts = PluginDependencies(cache=cluster.cache, devices=cluster.devices, enabled=is_enabled)
    found = {plugin.name: plugin for plugin in arrange(default_plugins(parts), parse(document(given)).profiles[0])}
    assert found["TopologyPlacementGenerator"].placements is not None
    assert "PodGroupPodsCount" not in found
