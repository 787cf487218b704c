"""What plugins make of pods: priorities, runtime classes, resizes, accounts, tolerations, labels."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apiserver.admission.default_toleration_seconds import DefaultTolerationSeconds
from apiserver.admission.pod_resize import NodeDeclaredFeatureValidator, PodResizeValidator
from apiserver.admission.pod_topology_labels import PodTopologyLabels
from apiserver.admission.priority import Priority
from apiserver.admission.runtime_class import RuntimeClass
from apiserver.admission.service_accounts import ServiceAccount
from apiserver.registry.admission import Attributes, Operation, Plugin
from tests.admission.asking import Json, Situation, refusal


def asked(plugin: Plugin, situation: Situation, spec: Json, old: Json | None = None, **more: Any) -> tuple[Json, str]:
    """The pod's spec afterwards, and what was said against it."""
    before = None if old is None else {"metadata": {"name": "x"}, "spec": old}
    operation: Operation = "CREATE" if old is None else "UPDATE"
    attributes = situation.request(operation, "pods", {"metadata": {"name": "x"}, "spec": spec}, before, **more)
    words = refusal(plugin, attributes)
    assert attributes.obj is not None
    found: Json = attributes.obj["spec"]
    return found, words


# Priority


def priority_class(name: str, value: int, **more: Any) -> Json:
    return {"metadata": {"name": name}, "value": value, **more}


CLASSES = {"priorityclasses": [priority_class("high", 5), priority_class("meek", 7, preemptionPolicy="Never")]}
DEFAULTS = {"priorityclasses": [priority_class("b", 4, globalDefault=True), priority_class("a", 3, globalDefault=True)]}


@pytest.mark.parametrize(
    ("there", "spec", "made", "words"),
    [
        ({}, {}, {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}, ""),
        (CLASSES, {}, {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}, ""),
        (
            CLASSES,
            {"priorityClassName": "meek"},
            {"priorityClassName": "meek", "priority": 7, "preemptionPolicy": "Never"},
            "",
        ),
        (
            DEFAULTS,
            {},
            {"priorityClassName": "a", "priority": 3, "preemptionPolicy": "PreemptLowerPriority"},
            "",
        ),
        (
            CLASSES,
            {"priorityClassName": "high", "priority": 5, "preemptionPolicy": "PreemptLowerPriority"},
            {"priorityClassName": "high", "priority": 5, "preemptionPolicy": "PreemptLowerPriority"},
            "",
        ),
        (CLASSES, {"priorityClassName": "none"}, None, "no PriorityClass with name none was found"),
        (
            CLASSES,
            {"priorityClassName": "high", "priority": 6},
            None,
            (
                "the integer value of priority (6) must not be provided in pod spec; priority admission controller"
                " computed 5 from the given PriorityClass name"
            ),
        ),
        (
            CLASSES,
            {"priorityClassName": "high", "preemptionPolicy": "Never"},
            None,
            (
                "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission"
                " controller computed PreemptLowerPriority from the given PriorityClass name"
            ),
        ),
    ],
)
def test_a_pod_gets_the_number_and_the_policy_of_its_class(
    there: Any, spec: Json, made: Json | None, words: str
) -> None:
    found, said = asked(Priority(), Situation(there), spec)
    assert said == words
    if made is not None:
        assert found == made


def test_an_update_keeps_what_a_pod_was_given() -> None:
    old = {"priority": 5, "preemptionPolicy": "Never"}
    assert asked(Priority(), Situation(CLASSES), {}, old) == (old, "")
    assert asked(Priority(), Situation(CLASSES), {"priority": 6}, {"priority": 5}) == ({"priority": 6}, "")
    assert asked(Priority(), Situation(CLASSES), {}, {}) == ({}, "")
    assert asked(Priority(), Situation(CLASSES), {}, subresource="binding") == ({}, "")


def test_one_priority_class_is_the_default() -> None:
    situation = Situation({"priorityclasses": [priority_class("a", 3, globalDefault=True)]})
    words = "PriorityClass a is already marked as default. Only one default can exist"
    for operation, name, default, said in (
        ("CREATE", "b", True, words),
        ("CREATE", "b", False, ""),
        ("UPDATE", "b", True, words),
        ("UPDATE", "a", True, ""),
    ):
        new = priority_class(name, 9, globalDefault=default)
        request = situation.request(operation, "priorityclasses", new, new, group="scheduling.k8s.io", namespace="")  # type: ignore[arg-type]
        assert refusal(Priority(), request) == said
    first = priority_class("b", 9, globalDefault=True)
    request = Situation(CLASSES).request("CREATE", "priorityclasses", first, group="scheduling.k8s.io", namespace="")
    assert refusal(Priority(), request) == ""


def test_a_group_of_pods_gets_a_priority_where_preemption_knows_of_groups() -> None:
    gates = {"WorkloadAwarePreemption": True, "GenericWorkload": True, "GangScheduling": True}
    for on, spec, made, words in (
        (True, {"priorityClassName": "high"}, {"priorityClassName": "high", "priority": 5}, ""),
        (True, {}, {"priority": 0}, ""),
        (False, {"priorityClassName": "high"}, {"priorityClassName": "high"}, ""),
        (True, {"priorityClassName": "high", "priority": 5}, {"priorityClassName": "high", "priority": 5}, ""),
        (True, {"priority": 5}, None, "priority set in the pod group (5) must match the priority computed (0) based on the priority class set in the spec"),
    ):  # fmt: skip
        situation = Situation(CLASSES, gates=gates if on else {})
        request = situation.request(
            "CREATE", "podgroups", {"metadata": {"name": "x"}, "spec": spec}, group="scheduling.k8s.io"
        )
        assert refusal(Priority(), request) == words
        assert request.obj is not None
        assert made is None or request.obj["spec"] == made


# RuntimeClass


def runtime(**more: Any) -> Situation:
    return Situation({"runtimeclasses": [{"metadata": {"name": "r"}, "handler": "h", **more}]})


R: Json = {"runtimeClassName": "r"}


def test_a_pod_takes_the_overhead_of_its_runtime_class() -> None:
    heavy = runtime(overhead={"podFixed": {"cpu": "1"}})
    assert asked(RuntimeClass(), heavy, dict(R)) == (R | {"overhead": {"cpu": "1"}}, "")
    assert asked(RuntimeClass(), heavy, R | {"overhead": {"cpu": "1000m"}}) == (R | {"overhead": {"cpu": "1"}}, "")
    other = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
    assert asked(RuntimeClass(), heavy, R | {"overhead": {"cpu": "2"}})[1] == other
    alone = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    assert asked(RuntimeClass(), runtime(), R | {"overhead": {"cpu": "1"}})[1] == alone
    assert asked(RuntimeClass(), runtime(), {"overhead": {"cpu": "1"}})[1] == alone
    assert asked(RuntimeClass(), runtime(), {}) == ({}, "")
    assert asked(RuntimeClass(), runtime(overhead={}), dict(R)) == (R, "")
    assert asked(RuntimeClass(), runtime(overhead={}), R | {"overhead": {"cpu": "1"}})[1] == other


def test_a_runtime_class_is_there_and_has_a_name_that_a_path_can_have() -> None:
    for name, words in (
        ("none", 'pod rejected: RuntimeClass "none" not found'),
        ("", "500 resource name may not be empty"),
        ("a/b", "500 invalid resource name \"a/b\": [may not contain '/']"),
    ):
        assert asked(RuntimeClass(), runtime(), {"runtimeClassName": name})[1] == words
    assert asked(RuntimeClass(), runtime(), {"runtimeClassName": "none"}, subresource="binding")[1] == ""


def test_a_pod_goes_where_its_runtime_class_is() -> None:
    picky = runtime(scheduling={"nodeSelector": {"a": "b"}, "tolerations": [{"key": "t", "operator": "Exists"}]})
    tolerates = [{"key": "t", "operator": "Exists"}]
    assert asked(RuntimeClass(), picky, dict(R))[0] == R | {"nodeSelector": {"a": "b"}, "tolerations": tolerates}
    both = asked(RuntimeClass(), picky, R | {"nodeSelector": {"c": "d", "a": "b"}, "tolerations": [{"key": "u"}]})
    assert both == (R | {"nodeSelector": {"c": "d", "a": "b"}, "tolerations": [{"key": "u"}, *tolerates]}, "")
    assert asked(RuntimeClass(), picky, R | {"nodeSelector": {"a": "c"}})[1] == (
        "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c"
    )
    assert asked(RuntimeClass(), runtime(scheduling={"nodeSelector": {}}), dict(R)) == (R, "")


@pytest.mark.parametrize(
    ("own", "kept"),
    [
        ({"key": "t", "operator": "Exists"}, False),
        ({"key": "t", "operator": "Equal", "value": "v"}, False),
        ({"key": "t", "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": "u", "operator": "Exists"}, True),
    ],
)
def test_a_toleration_that_the_class_covers_is_not_said_twice(own: Json, kept: bool) -> None:
    wide = {"key": "t", "operator": "Exists"}
    found, _ = asked(RuntimeClass(), runtime(scheduling={"tolerations": [wide]}), R | {"tolerations": [own]})
    assert found["tolerations"] == ([own, wide] if kept else [wide])


@pytest.mark.parametrize(
    ("wide", "narrow", "covered"),
    [
        ({"operator": "Exists"}, {"key": "t", "operator": "Exists"}, True),
        ({"operator": "Equal"}, {"key": "t", "operator": "Equal"}, False),
        ({"key": "t", "operator": "Exists", "effect": "NoExecute"}, {"key": "t", "operator": "Exists"}, False),
        ({"key": "t", "operator": "Exists", "effect": "NoExecute"}, {"key": "t", "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": "t", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}, {"key": "t", "operator": "Equal", "effect": "NoExecute", "tolerationSeconds": 5}, True),
        ({"key": "t", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}, {"key": "t", "operator": "Equal", "effect": "NoExecute", "tolerationSeconds": 6}, False),
        ({"key": "t", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}, {"key": "t", "operator": "Equal", "effect": "NoExecute"}, False),
        ({"key": "t", "operator": "Exists", "effect": "NoExecute"}, {"key": "t", "operator": "Equal", "effect": "NoExecute", "tolerationSeconds": 6}, True),
        ({"key": "t", "value": "v"}, {"key": "t", "operator": "Equal", "value": "v"}, True),
        ({"key": "t", "value": "v"}, {"key": "t", "operator": "Equal", "value": "w"}, False),
        ({"key": "t", "value": "v"}, {"key": "t", "operator": "Exists"}, False),
        ({"key": "t", "operator": "Lt", "value": "5"}, {"key": "t", "operator": "Equal", "value": "5"}, False),
    ],
)  # fmt: skip
def test_a_toleration_covers_another_that_allows_no_more(wide: Json, narrow: Json, covered: bool) -> None:
    for first, second in ((narrow, wide), (wide, narrow)):
        found, _ = asked(RuntimeClass(), runtime(scheduling={"tolerations": [second]}), R | {"tolerations": [first]})
        assert (narrow not in found["tolerations"]) is covered


# Changes of pods on nodes


def node(**more: Any) -> Situation:
    status = {"allocatable": {"cpu": "2", "memory": "1Gi"}, **more.pop("status", {})}
    gates = more.pop("gates", {})
    return Situation({"nodes": [{"metadata": {"name": "n1", **more}, "status": status}]}, gates=gates)


def resized(situation: Situation, cpu: str, *, generations: tuple[int, int] = (1, 2), **more: Any) -> str:
    spec = {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]} | more
    old, new = ({"metadata": {"name": "x", "generation": n}, "spec": spec} for n in generations)
    return refusal(PodResizeValidator(), situation.request("UPDATE", "pods", new, old, subresource="resize"))


def test_a_resize_fits_a_node_that_runs_linux() -> None:
    lacking = "node didn't have enough allocatable resources: cpu, requested: 2001, allocatable: 2000"
    assert resized(node(), "2") == ""
    assert resized(node(), "2001m") == lacking
    assert resized(node(), "2001m", generations=(1, 1)) == ""
    assert resized(node(), "2001m", nodeName="") == ""
    assert resized(node(), "1", nodeName="n2") == 'node "n2" not found'
    assert resized(node(labels={"kubernetes.io/os": "linux"}), "2") == ""
    assert resized(node(labels={"kubernetes.io/os": "windows"}), "1") == (
        'pod resize is only supported on linux nodes, node "n1" is "windows"'
    )
    assert resized(node(status={"allocatable": {}}), "1") == (
        "node didn't have enough allocatable resources: cpu, requested: 1000, allocatable: 0"
    )


def test_a_resize_that_is_refused_says_why_in_its_cause() -> None:
    for situation, reason in (
        (node(), "NodeCapacity"),
        (node(labels={"kubernetes.io/os": "windows"}), "UnsupportedPlatform"),
    ):
        spec = {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "9"}}}]}
        old, new = ({"metadata": {"name": "x", "generation": n}, "spec": spec} for n in (1, 2))
        request = situation.request("UPDATE", "pods", new, old, subresource="resize")
        with pytest.raises(Exception, match="forbidden") as refused:
            PodResizeValidator().validate(request)
        assert refused.value.details["causes"] == [{"reason": reason}]  # type: ignore[attr-defined]


def changed(new: Json, old: Json, *declared: str) -> str:
    situation = node(status={"declaredFeatures": list(declared)}, gates={"NodeDeclaredFeatures": True})
    before, after = (
        {"metadata": {"name": "x", "generation": n}, "spec": {"nodeName": "n1", **spec}}
        for n, spec in ((1, old), (2, new))
    )
    return refusal(NodeDeclaredFeatureValidator(), situation.request("UPDATE", "pods", after, before))


def test_a_change_needs_a_node_that_declares_it() -> None:
    pod_level, init = "InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers"

    def of_pod(cpu: str) -> Json:
        return {"resources": {"requests": {"cpu": cpu}}}

    def of_init(cpu: str, policy: str | None = None) -> Json:
        more = {"restartPolicy": policy} if policy else {}
        return {"initContainers": [{"name": "i", **more, **of_pod(cpu)}]}

    words = 'pod update requires features {} which are not available on node "n1"'
    assert changed(of_pod("1"), of_pod("1000m")) == ""
    assert changed(of_pod("2"), of_pod("1")) == words.format(pod_level)
    assert changed(of_pod("2"), of_pod("1"), pod_level) == ""
    assert changed({"resources": {"limits": {"cpu": "1"}}}, {}) == words.format(pod_level)
    assert changed({"resources": {"claims": [{"name": "a"}]}}, {"resources": {}}) == words.format(pod_level)
    assert changed(of_init("2"), of_init("1")) == words.format(init)
    assert changed(of_init("2"), of_init("1"), init) == ""
    assert changed(of_init("2", "Always"), of_init("1", "Always")) == ""
    assert changed(of_init("1"), of_init("1")) == ""
    both = {**of_init("2"), **of_pod("2")}, {**of_init("1"), **of_pod("1")}
    assert changed(*both) == words.format(f"{pod_level}, {init}")
    assert changed(*both, init) == words.format(pod_level)


# Tolerations, labels of the node


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([], ["not-ready", "unreachable"]),
        ([{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}], ["unreachable"]),
        ([{"key": "node.kubernetes.io/not-ready"}], ["unreachable"]),
        ([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}], ["not-ready", "unreachable"]),
        ([{"operator": "Exists"}], []),
        ([{"operator": "Exists", "effect": "NoSchedule"}], ["not-ready", "unreachable"]),
    ],
)
def test_a_pod_stays_five_minutes_on_a_lost_node_unless_it_says_what_it_tolerates(
    given: list[Json], added: list[str]
) -> None:
    found, _ = asked(DefaultTolerationSeconds(), Situation(), {"tolerations": given})
    assert found["tolerations"] == given + [
        {"key": f"node.kubernetes.io/{each}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for each in added
    ]
    untouched, _ = asked(DefaultTolerationSeconds(), Situation(), {}, subresource="status")
    assert untouched == {}


ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


@pytest.mark.parametrize(
    ("obj", "subresource", "labels"),
    [
        ({"spec": {"nodeName": "n1"}}, "", {ZONE: "z", REGION: "r"}),
        ({"spec": {"nodeName": "n1"}, "metadata": {"labels": {"a": "b", ZONE: "x"}}}, "", {"a": "b", ZONE: "z", REGION: "r"}),
        ({"spec": {"nodeName": "n2"}}, "", None),
        ({"spec": {}}, "", None),
        ({"target": {"kind": "Node", "name": "n1"}}, "binding", {ZONE: "z", REGION: "r"}),
        ({"target": {"kind": "Pod", "name": "n1"}}, "binding", None),
        ({"spec": {"nodeName": "n1"}}, "eviction", None),
    ],
)  # fmt: skip
def test_a_pod_knows_the_zone_of_its_node(obj: Json, subresource: str, labels: Json | None) -> None:
    for on in (True, False):
        situation = node(labels={ZONE: "z", REGION: "r", "other": "x"}, gates={"PodTopologyLabelsAdmission": on})
        request = situation.request("CREATE", "pods", obj, subresource=subresource)
        assert refusal(PodTopologyLabels(), request) == ""
        assert request.obj is not None
        before = obj.get("metadata", {}).get("labels")
        assert request.obj.get("metadata", {}).get("labels") == (labels if on else before)


# Service accounts


def account(name: str = "default", **more: Any) -> Json:
    metadata = {"name": name, "namespace": "n", **more.pop("metadata", {})}
    return {"metadata": metadata, **more}


def with_account(spec: Json, *accounts: Json, **metadata: Any) -> tuple[Json, str]:
    request: Attributes = Situation({"serviceaccounts": list(accounts)}).request(
        "CREATE", "pods", {"metadata": {"name": "x", **metadata}, "spec": spec}
    )
    words = refusal(ServiceAccount(lambda: "abcde"), request)
    assert request.obj is not None
    found: Json = request.obj["spec"]
    return found, words


MOUNT = {
    "name": "kube-api-access-abcde",
    "readOnly": True,
    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
}


def test_a_pod_runs_as_an_account_whose_token_its_containers_have() -> None:
    has_own = {"name": "d", "volumeMounts": [{"name": "m", "mountPath": MOUNT["mountPath"]}]}
    other = {"name": "e", "volumeMounts": [{"name": "m", "mountPath": "/m"}]}
    found, words = with_account(
        {"initContainers": [{"name": "i"}], "containers": [{"name": "c"}, has_own, other]}, account()
    )
    assert words == ""
    assert (found["serviceAccountName"], found["serviceAccount"]) == ("default", "default")
    assert found["initContainers"][0]["volumeMounts"] == found["containers"][0]["volumeMounts"] == [MOUNT]
    assert found["containers"][1] == has_own
    assert found["containers"][2]["volumeMounts"] == [*other["volumeMounts"], MOUNT]
    (volume,) = found["volumes"]
    assert volume["name"] == MOUNT["name"]
    assert volume["projected"]["defaultMode"] == 0o644
    assert volume["projected"]["sources"][0] == {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    alone, _ = with_account({"containers": [has_own]}, account())
    assert "volumes" not in alone
    there, _ = with_account({"containers": [{"name": "c"}], "volumes": [{"name": "kube-api-access-own"}]}, account())
    assert there["volumes"] == [{"name": "kube-api-access-own"}]
    assert there["containers"][0]["volumeMounts"] == [MOUNT | {"name": "kube-api-access-own"}]


@pytest.mark.parametrize(
    ("pod", "of_account", "mounted"),
    [(None, None, True), (None, False, False), (True, False, True), (False, True, False), (False, None, False)],
)
def test_the_pod_and_then_its_account_say_whether_there_is_a_token(
    pod: bool | None, of_account: bool | None, mounted: bool
) -> None:
    name = "automountServiceAccountToken"
    spec = {"containers": [{"name": "c"}], **({} if pod is None else {name: pod})}
    found, _ = with_account(spec, account(**({} if of_account is None else {name: of_account})))
    assert ("volumes" in found) is mounted


def test_a_pod_pulls_with_the_secrets_of_its_account_unless_it_has_its_own() -> None:
    pulls = account(imagePullSecrets=[{"name": "a"}, {}])
    assert with_account({"containers": []}, pulls)[0]["imagePullSecrets"] == [{"name": "a"}, {"name": ""}]
    own = with_account({"containers": [], "imagePullSecrets": [{"name": "b"}]}, pulls)[0]
    assert own["imagePullSecrets"] == [{"name": "b"}]
    assert "imagePullSecrets" not in with_account({"containers": []}, account())[0]


def test_an_account_that_is_not_there_is_told() -> None:
    assert with_account({"serviceAccountName": "a", "containers": []})[1] == (
        'error looking up service account n/a: serviceaccount "a" not found'
    )
    nameless = Situation({}).request("CREATE", "pods", {"metadata": {"name": "x"}, "spec": {}})
    with pytest.raises(Exception, match="no service account specified for pod n/x"):
        ServiceAccount().validate(nameless)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, ""),
        ({"serviceAccountName": "a"}, "a mirror pod may not reference service accounts"),
        ({"imagePullSecrets": [{"name": "a"}]}, "a mirror pod may not reference secrets"),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{"downwardAPI": {}}, {"serviceAccountToken": {}}]}}]},
            "a mirror pod may not use ServiceAccountToken volume projections",
        ),
        ({"volumes": [{"name": "v", "projected": {"sources": [{"downwardAPI": {}}]}}]}, ""),
    ],
)
def test_a_mirror_pod_has_no_account_and_no_secret(spec: Json, words: str) -> None:
    found, said = with_account(dict(spec), annotations={"kubernetes.io/config.mirror": ""})
    assert said == words
    assert found == spec


ENFORCED: Json = {"metadata": {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, ""),
        ({"volumes": [{"name": "v", "secret": {"secretName": "known"}}]}, ""),
        ({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}, 'volume with secret.secretName="s" is not allowed because service account default does not reference that secret'),
        ({"initContainers": [{"name": "i", "envFrom": [{"configMapRef": {}}, {"secretRef": {"name": "s"}}]}]}, 'init container i with envFrom referencing secret.secretName="s" is not allowed because service account default does not reference that secret'),
        ({"containers": [{"name": "c", "env": [{"name": "P", "value": "x"}, {"name": "E", "valueFrom": {"secretKeyRef": {"name": "s"}}}]}]}, 'container c with envVar E referencing secret.secretName="s" is not allowed because service account default does not reference that secret'),
        ({"imagePullSecrets": [{"name": "pulls"}]}, ""),
        ({"imagePullSecrets": [{"name": "pulls"}, {"name": "s"}]}, 'imagePullSecrets[1].name="s" is not allowed because service account default does not reference that imagePullSecret'),
    ],
)  # fmt: skip
def test_an_account_may_say_which_secrets_its_pods_use(spec: Json, words: str) -> None:
    accounts = account(secrets=[{"name": "known"}], imagePullSecrets=[{"name": "pulls"}], **ENFORCED)
    assert with_account({"containers": [], **spec}, accounts)[1] == words
    for value, enforced in (("false", False), ("1", True), ("T", True), ("yes", False)):
        said = account(
            secrets=[{"name": "known"}], imagePullSecrets=[{"name": "pulls"}],
            metadata={"annotations": {"kubernetes.io/enforce-mountable-secrets": value}},
        )  # fmt: skip
        assert with_account({"containers": [], **spec}, said)[1] == (words if enforced else "")


def test_a_container_that_is_added_for_debugging_uses_no_other_secrets() -> None:
    debug = {"name": "d", "envFrom": [{"secretRef": {"name": "s"}}]}
    spec = {"serviceAccountName": "default", "ephemeralContainers": [debug], "imagePullSecrets": [{"name": "x"}]}
    pod = {"metadata": {"name": "x"}, "spec": spec}
    situation = Situation({"serviceaccounts": [account(**ENFORCED)]})
    words = (
        '500 ephemeral container d with envFrom referencing secret.secretName="s" is not allowed because service account'
        " default does not reference that secret"
    )
    plugin = ServiceAccount()
    assert refusal(plugin, situation.request("UPDATE", "pods", pod, pod, subresource="ephemeralcontainers")) == words
    assert refusal(plugin, situation.request("UPDATE", "pods", pod, pod, subresource="status")) == ""
    assert refusal(plugin, situation.request("UPDATE", "pods", pod, pod)) == ""
    assert refusal(plugin, situation.request("CREATE", "pods", pod, subresource="binding")) == ""


def test_the_default_account_is_waited_for_a_while_as_a_controller_makes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apiserver.admission.service_accounts._PAUSE", 0)
    looks: list[int] = []

    async def made_after(number: int) -> str:
        looks.clear()
        request = Situation({}).request("CREATE", "pods", {"metadata": {"name": "x"}, "spec": {"containers": []}})

        def lookup(*_: Any) -> Json | None:
            looks.append(1)
            return account() if len(looks) > number else None

        request.ctx.lookup = lookup  # type: ignore[method-assign]
        waiting = ServiceAccount().admit(request)
        assert waiting is not None
        try:
            await waiting
        except Exception as error:  # noqa: BLE001 - it is shown
            return str(error)
        return ""

    assert asyncio.run(made_after(3)) == ""
    assert len(looks) == 4
    assert 'serviceaccount "default" not found' in asyncio.run(made_after(99))
    assert len(looks) == 20
