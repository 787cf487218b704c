"""Admission: the enabled plugins, their order, and the built-in ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from apiserver.admission.plugins.default_toleration_seconds import DefaultTolerationSeconds
from apiserver.admission.plugins.namespace_lifecycle import NamespaceLifecycle
from apiserver.admission.plugins.priority import Priority
from apiserver.admission.plugins.registered import BUILT, DEFAULT_ON, ORDER, build, conflicting, select
from apiserver.admission.plugins.taint_nodes_by_condition import TaintNodesByCondition
from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.registry.store.admission import Attributes, Chain, Plugin
from tests.registry.conftest import World


def test_the_flags_add_to_and_take_from_the_default_set() -> None:
    found = select(["NodeRestriction", "Nope"], ["Priority"])
    assert set(found.on) == (DEFAULT_ON | {"NodeRestriction"}) - {"Priority"}
    assert found.unknown == ("Nope",)
    assert list(found.on) == [name for name in ORDER if name in found.on]
    assert conflicting(["Priority", "LimitRanger"], ["Priority"]) == ("Priority",)


def test_only_what_was_asked_for_and_is_not_built_is_missing() -> None:
    assert select(["Priority"]).missing == ()
    assert select(["ImagePolicyWebhook", "ImagePolicyWebhook"]).missing == ("ImagePolicyWebhook",)


def test_every_name_that_is_built_is_one_of_upstreams() -> None:
    assert set(BUILT) <= set(ORDER)
    assert set(ORDER) >= DEFAULT_ON


async def test_every_plugin_is_built_under_its_name_and_stands_in_upstreams_order(world: World) -> None:
    chain = build(world.registry, enable=BUILT)
    assert [plugin.name for plugin in chain.plugins] == [name for name in ORDER if name in BUILT]


@dataclass
class Ctx:
    """The part of a context that plugins read."""

    resource: Any
    subresource: str = ""
    namespace: str = "default"
    classes: list[Json] = field(default_factory=list)

    def all_of(self, group: str, plural: str) -> list[Json]:
        return self.classes

    def lookup(self, group: str, plural: str, namespace: str, name: str) -> Json | None:
        return next((item for item in self.classes if item["metadata"]["name"] == name), None)


@dataclass(frozen=True)
class Kind:
    plural: str
    group: str = ""


def create(plural: str, obj: Json, *classes: Json) -> Attributes:
    ctx: Any = Ctx(Kind(plural), classes=list(classes))
    return Attributes("CREATE", ctx, "x", obj)


def test_pods_tolerate_lost_nodes_for_five_minutes_unless_they_say_otherwise() -> None:
    pod: Json = {"spec": {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]}}
    DefaultTolerationSeconds().admit(create("pods", pod))
    assert pod["spec"]["tolerations"][1:] == [
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    ]
    everything: Json = {"spec": {"tolerations": [{"operator": "Exists"}]}}
    DefaultTolerationSeconds().admit(create("pods", everything))
    assert len(everything["spec"]["tolerations"]) == 1


def test_a_pod_gets_the_priority_of_its_class() -> None:
    plain: Json = {"spec": {}}
    Priority().admit(create("pods", plain))
    assert plain["spec"] == {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}
    high = {"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never", "globalDefault": True}
    default: Json = {"spec": {}}
    Priority().admit(create("pods", default, high))
    assert default["spec"] == {"priorityClassName": "high", "priority": 7, "preemptionPolicy": "Never"}
    with pytest.raises(StatusError, match="no PriorityClass with name none was found"):
        Priority().admit(create("pods", {"spec": {"priorityClassName": "none"}}))
    with pytest.raises(
        StatusError, match=r"the integer value of priority \(5\) must not be provided in pod spec; .* computed 7"
    ):
        Priority().admit(create("pods", {"spec": {"priorityClassName": "high", "priority": 5}}, high))


def test_reviews_alone_need_no_namespace_and_are_known_by_their_group() -> None:
    ctx: Any = Ctx(Kind("localsubjectaccessreviews", "authorization.k8s.io"))
    NamespaceLifecycle().admit(Attributes("CREATE", ctx, "", {}))
    with pytest.raises(StatusError, match='namespaces "default" not found'):
        NamespaceLifecycle().admit(create("localsubjectaccessreviews", {}))


def test_a_new_node_is_tainted_once() -> None:
    node: Json = {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
    for _ in range(2):
        TaintNodesByCondition().admit(create("nodes", node))
    assert [taint["key"] for taint in node["spec"]["taints"]] == ["k", "node.kubernetes.io/not-ready"]


class Recorder(Plugin):
    operations = frozenset({"CREATE"})

    def __init__(self, name: str, log: list[str], *, waits: bool = False) -> None:
        self.name, self._log, self._waits = name, log, waits

    def admit(self, attributes: Attributes) -> Any:
        if not self._waits:
            self._log.append(self.name)
            return None

        async def later() -> None:
            self._log.append(self.name)

        return later()


async def test_plugins_are_asked_in_order_whether_they_wait_or_not(world: World) -> None:
    log: list[str] = []
    store = world.store("configmaps")
    plugins = [Recorder("a", log), Recorder("b", log, waits=True), Recorder("c", log)]
    world.registry.admission, store.cached_handlers = Chain(plugins), {}
    await world.create("configmaps", {"metadata": {"name": "x"}})
    await world.merge("configmaps", "x", {"data": {"a": "1"}})
    assert log == ["a", "b", "c"]


async def test_a_chain_without_plugins_asks_nobody(world: World) -> None:
    assert build(world.registry, disable=ORDER).plugins == ()


async def test_a_plugin_that_objects_configure_is_asked_only_while_there_are_any(world: World) -> None:
    class Configured(Recorder):
        configured_by = ("coordination.k8s.io", "leases")

    log: list[str] = []
    registry, leases = world.registry, world.store("leases")
    registry.admission = Chain([Recorder("always", log), Configured("configured", log)])
    registry.watch_configuration(world.store("configmaps"))
    registry.watch_configuration(leases)

    async def asked(name: str) -> list[str]:
        log.clear()
        await world.create("configmaps", {"metadata": {"name": name}})
        return log[:]

    assert await asked("a") == ["always"]
    for name in ("one", "two"):
        await world.create("leases", {"metadata": {"name": name}})
        assert await asked(f"with-{name}") == ["always", "configured"]
    await world.delete("leases", "one")
    assert await asked("with-one-left") == ["always", "configured"]
    stored = (await registry.log.state(leases.cache.prefix)).records
    leases.cache.load((), registry.log.revision)  # as after a snapshot of what another server stored
    assert await asked("unloaded") == ["always"]
    leases.cache.load(stored, registry.log.revision)
    assert await asked("loaded") == ["always", "configured"]
    await world.delete("leases", "two")
    assert await asked("without") == ["always"]


async def test_a_plugin_says_once_whether_requests_concern_it_and_again_after_each_change_of_what_it_goes_by(
    world: World,
) -> None:
    class Judging(Recorder):
        depends_on = (("coordination.k8s.io", "leases"),)
        wanted, judged = "", 0

        def can_handle(self, attributes: Attributes) -> bool:
            self.judged += 1
            return attributes.resource.plural == self.wanted

    log: list[str] = []
    registry, plugin = world.registry, Judging("judging", log)
    registry.admission = Chain([plugin])
    for plural in ("leases", "configmaps"):
        world.store(plural).cached_handlers = {}
        registry.watch_configuration(world.store(plural))

    async def asked(name: str) -> bool:
        log.clear()
        await world.create("configmaps", {"metadata": {"name": name}})
        return bool(log)

    assert not await asked("a")
    plugin.wanted, judged = "configmaps", plugin.judged
    assert not await asked("b")
    assert plugin.judged == judged == 1
    for name in ("one", "two"):
        await world.create("leases", {"metadata": {"name": name}})
        assert await asked(f"with-{name}")
    plugin.wanted = ""
    await world.delete("leases", "one")
    assert not await asked("after")
