"""Valid pods, and their defaults."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.errors.field_errors import FieldError, Path, required
from apiserver.api.objects import Json
from apiserver.resources.pods.gates import PodGates
from apiserver.resources.pods.validspecs import MIRROR, ValidSpecs
from tests.resources.conftest import Judge, find
from tests.resources.pods import errors, pod


def test_a_minimal_pod_gets_upstreams_defaults(judge: Judge) -> None:
    stored = judge.create_valid("pods", pod())
    assert stored["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "img:1",
                "resources": {},
                "imagePullPolicy": "IfNotPresent",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "enableServiceLinks": True,
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler",
    }
    assert stored["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert stored["metadata"]["generation"] == 1


def test_only_the_class_of_a_status_that_a_new_pod_brings_stays(judge: Judge) -> None:
    given = {**pod(), "status": {"phase": "Running", "qosClass": "Guaranteed", "reason": "Mine"}}
    stored = judge.create_valid("pods", given)
    assert stored["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("img", "Always"), ("img:latest", "Always"), ("img:1", "IfNotPresent"), ("host:5000/img", "Always"), ("host:5000/img:1", "IfNotPresent"),
        ("img@sha256:" + "a" * 64, "IfNotPresent"), ("BAD", "IfNotPresent"), ("Host.example.com/img", "Always"),
    ],
)  # fmt: skip
def test_images_are_pulled_always_when_they_are_the_latest(judge: Judge, image: str, policy: str) -> None:
    assert judge.create("pods", pod({"image": image}))[0]["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_limits_are_requested_unless_less_is(judge: Judge) -> None:
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}
    stored = judge.create_valid("pods", pod({"resources": resources}))
    assert stored["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}, "Burstable"),
    ],
)
def test_the_quality_of_service_follows_from_requests_and_limits(judge: Judge, resources: Json, expected: str) -> None:
    assert judge.create("pods", pod({"resources": resources}))[0]["status"]["qosClass"] == expected


def test_defaulting_twice_changes_nothing(judge: Judge) -> None:
    rich = pod(
        {
            "ports": [{"containerPort": 80}], "livenessProbe": {"httpGet": {"port": 80}},
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        },
        volumes=[{"name": "e"}, {"name": "s", "secret": {"secretName": "x"}}], hostNetwork=True,
    )  # fmt: skip
    once = judge.decoded(find("pods"), rich)
    assert judge.decoded(find("pods"), once) == once


@pytest.mark.parametrize(
    ("container", "wrong"),
    [
        ({"name": ""}, ".name: Required value"),
        ({"image": ""}, ".image: Required value"),
        ({"ports": [{"containerPort": 70000}]}, ".ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive"),
        (
            {"env": [{"name": "a=b"}]},
            ".env[0].name: Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII characters other than '='",
        ),
        (
            {"env": [{"name": "A", "valueFrom": {}}]},
            '.env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`',
        ),
        ({"volumeMounts": [{"name": "x", "mountPath": "/x"}]}, '.volumeMounts[0].name: Not found: "x"'),
        ({"livenessProbe": {}}, ".livenessProbe: Required value: must specify a handler type"),
        ({"livenessProbe": {"tcpSocket": {"port": 1}, "successThreshold": 2}}, ".livenessProbe.successThreshold: Invalid value: 2: must be 1"),
        ({"imagePullPolicy": "Maybe"}, '.imagePullPolicy: Unsupported value: "Maybe": supported values: "Always", "IfNotPresent", "Never"'),
        (
            {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
            '.resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
        ({"resources": {"requests": {"cpu": "-1"}}}, '.resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0'),
        ({"resources": {"requests": {"example.com/gpu": "1"}}}, ".resources.limits: Required value: Limit must be set for non overcommitable resources"),
        ({"resources": {"requests": {"hugepages-2Mi": "2Mi"}, "limits": {"hugepages-2Mi": "2Mi"}}}, ".resources: Forbidden: HugePages require cpu or memory"),
    ],
)  # fmt: skip
def test_a_container_is_checked(judge: Judge, container: Json, wrong: str) -> None:
    assert errors(judge, pod(container)) == [f"spec.containers[0]{wrong}"]


def test_a_device_class_is_an_ordinary_resource_of_a_container(judge: Judge) -> None:
    assert errors(judge, pod({"resources": {"requests": {"deviceclass.resource.kubernetes.io/gpu": "1"}}})) == []


def test_containers_have_names_of_their_own(judge: Judge) -> None:
    two = pod(initContainers=[{"name": "c", "image": "i"}])
    assert errors(judge, two) == ['spec.initContainers[0].name: Duplicate value: "c"']


def test_init_containers_have_probes_only_as_sidecars(judge: Judge) -> None:
    probe = {"readinessProbe": {"exec": {"command": ["x"]}}}
    assert errors(judge, pod(initContainers=[{"name": "i", "image": "i", "restartPolicy": "Always", **probe}])) == []
    assert errors(judge, pod(initContainers=[{"name": "i", "image": "i", **probe}])) == [
        "spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always"
    ]


@pytest.mark.parametrize(
    ("volume", "wrong"),
    [
        ({"name": "V"}, '.name: Invalid value: "V": a lowercase RFC 1123 label'),
        (
            {"name": "v", "hostPath": {"path": "/a/../b"}},
            ".hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
        ),
        ({"name": "v", "configMap": {}}, ".configMap.name: Required value"),
        (
            {"name": "v", "emptyDir": {}, "secret": {"secretName": "s"}},
            ".secret: Forbidden: may not specify more than 1 volume type",
        ),
        (
            {"name": "v", "secret": {"secretName": "s", "defaultMode": 512}},
            ".secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777",
        ),
    ],
)
def test_a_volume_has_one_source(judge: Judge, volume: Json, wrong: str) -> None:
    (found,) = errors(judge, pod(volumes=[volume]))
    assert found.startswith(f"spec.volumes[0]{wrong}")


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"restartPolicy": "Sometimes"}, 'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"'),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
            "spec.tolerations[0].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'",
        ),
        (
            {"tolerations": [{"key": "a", "tolerationSeconds": 1}]},
            "spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
        ),
        ({"nodeName": "n", "schedulingGates": [{"name": "g"}]}, "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"),
        (
            {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]},
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
        ),
        (
            {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}},
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term",
        ),
        (
            {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["BAD k"]}]},
            "spec.topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
        ),
        ({"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"),
        ({"ephemeralContainers": [{"name": "e", "image": "i"}]}, "spec.ephemeralContainers: Forbidden: cannot be set on create"),
        (
            {"resources": {"requests": {"storage": "1"}}},
            'spec.resources.requests[storage]: Unsupported value: "storage": supported values: "cpu", "hugepages-", "memory"',
        ),
    ],
)  # fmt: skip
def test_the_pod_as_a_whole_is_checked(judge: Judge, spec: Json, wrong: str) -> None:
    assert errors(judge, pod(**spec)) == [wrong]


CLAIM: Json = {"name": "g", "resourceClaimName": "x"}


def test_a_container_uses_claims_of_its_pod_each_once(judge: Judge) -> None:
    assert errors(judge, pod({"resources": {"claims": [{"name": "g", "request": "r"}]}}, resourceClaims=[CLAIM])) == []
    assert errors(judge, pod({"resources": {"claims": [{"name": "h"}]}}, resourceClaims=[CLAIM])) == [
        'spec.containers[0].resources.claims[0]: Not found: "h": must be one of the names in pod.spec.resourceClaims: g'
    ]
    assert errors(
        judge, pod({"resources": {"claims": [{"name": "g"}, {"name": "g", "request": "r"}]}}, resourceClaims=[CLAIM])
    ) == ['spec.containers[0].resources.claims[1]: Duplicate value: "g"']


def test_a_pods_claim_has_one_source(judge: Judge) -> None:
    assert errors(judge, pod(resourceClaims=[{"name": "g", "resourceClaimTemplateName": "t"}])) == []
    assert errors(judge, pod(resourceClaims=[{"name": "g"}])) == [
        (
            'spec.resourceClaims[0]: Invalid value: {"Name":"g","ResourceClaimName":null,"ResourceClaimTemplateName":null}:'
            " must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        )
    ]


def test_authors_are_warned_of_what_they_may_not_mean(judge: Judge) -> None:
    resource = find("pods")
    obj = pod(
        {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]},
        nodeSelector={"beta.kubernetes.io/os": "linux"},
    )
    obj["metadata"] = {"name": "a.b"}
    assert resource.strategy.warnings_on_create(judge.context(resource), obj) == [
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
        'spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead',
        'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply',
    ]


@pytest.mark.parametrize(
    ("context", "error"),
    [
        ({"runAsUser": -1}, "runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive"),
        (
            {"supplementalGroups": [1, -2]},
            "supplementalGroups[1]: Invalid value: -2: must be between 0 and 2147483647, inclusive",
        ),
        (
            {"sysctls": [{"name": "net.core.x", "value": "1"}]},
            "sysctls[0].name: Invalid value: \"net.core.x\": may not be specified when 'hostNetwork' is true",
        ),
        (
            {"fsGroupChangePolicy": "X"},
            'fsGroupChangePolicy: Unsupported value: "X": supported values: "Always", "OnRootMismatch"',
        ),
        (
            {"seccompProfile": {"type": "Localhost"}},
            "seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
        ),
        (
            {"appArmorProfile": {"type": "Localhost", "localhostProfile": " x"}},
            'appArmorProfile.localhostProfile: Invalid value: " x": must not be padded with whitespace',
        ),
        (
            {"seLinuxChangePolicy": "MountOption"},
            'seLinuxChangePolicy: Unsupported value: "MountOption": supported values: "Recursive"',
        ),
    ],
)
def test_security_contexts_make_sense(judge: Judge, context: Json, error: str) -> None:
    assert errors(judge, pod(securityContext=context, hostNetwork=True)) == [f"spec.securityContext.{error}"]


def test_an_unmasked_proc_needs_a_user_namespace(judge: Judge) -> None:
    assert errors(judge, pod({"securityContext": {"procMount": "Unmasked"}})) == [
        'spec.containers[0].securityContext.procMount: Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`'
    ]


def test_search_domains_are_names(judge: Judge) -> None:
    [error] = errors(judge, pod(dnsConfig={"searches": [".", "a_b.c.", "a b"]}))
    assert error.startswith('spec.dnsConfig.searches[2]: Invalid value: "a b": a lowercase RFC 1123 subdomain must')


def test_an_address_without_a_port_of_the_host_is_told(judge: Judge) -> None:
    stored = judge.create("pods", pod({"ports": [{"containerPort": 80, "hostIP": "1.2.3.4"}]}))[0]
    resource = find("pods")
    shown = "{Name: HostPort:0 ContainerPort:80 Protocol:TCP HostIP:1.2.3.4}"
    told = resource.strategy.warnings_on_create(judge.context(resource), stored)
    assert told == [f"spec.containers[0].ports[0]: hostIP set without hostPort: {shown}"]


def test_files_that_variables_are_read_from_lie_in_empty_volumes(judge: Judge) -> None:
    def reading(volume: str) -> Json:
        reference = {"key": "K", "volumeName": volume, "path": "f"}
        volumes = [{"name": "e", "emptyDir": {}}, {"name": "h", "hostPath": {"path": "/h"}}]
        return pod({"env": [{"name": "K", "valueFrom": {"fileKeyRef": reference}}]}, volumes=volumes)

    at = "spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName"
    assert errors(judge, reading("e")) == []
    assert errors(judge, reading("x")) == [f'{at}: Not found: "x"']
    assert errors(judge, reading("h")) == [f'{at}: Invalid value: "h": referenced volume must be of type emptyDir']


def test_processes_are_shared_with_the_pod_or_with_the_host(judge: Judge) -> None:
    """Also where no security settings are given: upstream keeps both fields among them."""
    wrong = "spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled"
    assert errors(judge, pod(shareProcessNamespace=True, hostPID=True)) == [wrong]
    assert errors(judge, pod(shareProcessNamespace=True)) == []


@pytest.mark.parametrize(
    ("system", "signal", "wrong"),
    [
        ("linux", "SIGRTMIN+3", ""),
        ("linux", "SIGNAL", 'Unsupported value: "SIGNAL": supported values: "SIGABRT", "SIGALRM"'),
        ("windows", "SIGTERM", ""),
        ("windows", "SIGUSR1", 'Unsupported value: "SIGUSR1": supported values: "SIGKILL", "SIGTERM"'),
        ("", "SIGTERM", "Forbidden: may not be set for containers with empty `spec.os.name`"),
    ],
)
def test_a_container_is_stopped_by_a_signal_of_its_system(
    judge_with: Any, system: str, signal: str, wrong: str
) -> None:
    more = {"os": {"name": system}} if system else {}
    found = errors(judge_with(ContainerStopSignals=True), pod({"lifecycle": {"stopSignal": signal}}, **more))
    assert len(found) == bool(wrong)
    assert all(text.startswith(f"spec.containers[0].lifecycle.stopSignal: {wrong}") for text in found)


def test_where_a_token_is_written_is_told_at_its_volume(judge: Judge) -> None:
    sources = [{"serviceAccountToken": {"path": "../t"}}, {"serviceAccountToken": {"path": ""}}]
    found = errors(judge, pod(serviceAccountName="a", volumes=[{"name": "v", "projected": {"sources": sources}}]))
    assert found == [
        "spec.volumes[0].projected.path: Invalid value: \"../t\": must not contain '..'",
        "spec.volumes[0].projected.path: Required value",
    ]


def test_of_specs_that_say_the_same_one_is_judged_as_long_as_nothing_was_wrong_and_it_is_remembered() -> None:
    plain: Json = {"containers": [{"name": "c"}]}
    claims = {**plain, "volumes": [{"name": "v", "ephemeral": {}}]}
    known, wrong = ValidSpecs(most=4, room=1000), list[FieldError]()

    def asked(spec: Json, gates: PodGates = PodGates(), **metadata: Any) -> bool:  # noqa: B008
        judged = False

        def judge() -> list[FieldError]:
            nonlocal judged
            judged = True
            return wrong

        found = known.judged(spec, metadata, gates, judge)
        assert found == (wrong if judged else [])
        return judged

    wrong.append(required(Path("spec")))
    assert (asked(plain, name="a"), asked(plain, name="a")) == (True, True)
    wrong.clear()
    assert (asked(plain, name="a"), asked(plain, name="b", labels={})) == (True, False)
    assert (asked(plain, PodGates(compares=True)), asked(plain, PodGates(strict=True))) == (True, True)
    assert (asked(claims, name="a"), asked(claims, name="b")) == (True, True), "claims have the names of pods"
    known = ValidSpecs(most=4, room=1000)
    assert (asked(plain), asked(plain, annotations={MIRROR: "x"}), asked(plain)) == (True, True, False)
    assert [asked({"hostname": "x" * 400}) for _ in range(2)] == [True, False]
    assert [asked({"hostname": "y" * 600}), asked(plain)] == [True, True], "there is room for a thousand bytes"
    assert [asked({"hostname": "z" * 1100}) for _ in range(2)] == [True, True]
    assert [asked({"hostname": 1 << 70}) for _ in range(2)] == [True, True], "what cannot be written"
    for number in range(4):
        asked({"number": number})
    assert asked(plain)
