"""The configuration file of admission plugins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.features.gates import Features
from apiserver.api.objects import Json
from apiserver.options.admission import read_admission
from apiserver.webhooks.client import Target, Webhooks
from apiserver.webhooks.credentials import read_credentials
from apiserver.webhooks.failures import WebhookError
from kubedra.kubeconfig.credentials import Credentials
from kubedra.kubeconfig.reader import KubeconfigError, read_kubeconfig
from tests.support.server import serve

pytestmark = pytest.mark.integration

PODS = "/api/v1/namespaces/{}/pods"


def plugin_configuration(directory: Path, plugin: str, **configuration: Any) -> Path:
    path = directory / "admission.yaml"
    plugins = [{"name": plugin, "configuration": configuration}]
    path.write_text(
        json.dumps({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins})
    )
    return path


def pod_security(directory: Path, **said: Any) -> Path:
    version = "pod-security.admission.config.k8s.io/v1"
    return plugin_configuration(directory, "PodSecurity", apiVersion=version, kind="PodSecurityConfiguration", **said)


def pod(name: str, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def test_a_configured_resource_is_refused_without_a_quota(tmp_path: Path) -> None:
    system = {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical", "none"]}
    limited = [
        {"resource": "pods", "matchContains": ["requests.cpu"], "matchScopes": [system]},
        {"resource": "configmaps", "matchContains": ["count/configmaps"]},
    ]
    version, kind = "apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"
    path = plugin_configuration(tmp_path, "ResourceQuota", apiVersion=version, kind=kind, limitedResources=limited)
    with serve(f"--admission-control-config-file={path}") as running:
        wire = running.wire()
        maps = "/api/v1/namespaces/default/configmaps"
        refused = wire.post(maps, {"metadata": {"name": "a"}})
        text = 'configmaps "a" is forbidden: insufficient quota to consume: count/configmaps'
        assert refused.refusal == (403, text)
        wire.create(PODS.format("default"), pod("free"))
        greedy = pod("greedy")
        greedy["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
        refused = wire.post(PODS.format("default"), greedy)
        assert refused.message == 'pods "greedy" is forbidden: insufficient quota to consume: requests.cpu'
        critical = pod("critical", priorityClassName="system-node-critical")
        refused = wire.post(PODS.format("default"), critical)
        shown = "insufficient quota to match these scopes: [{PriorityClass In [system-node-critical none]}]"
        assert refused.refusal == (500, shown)


def test_pods_are_held_to_the_defaults_unless_they_are_exempt(tmp_path: Path) -> None:
    exempt = {"namespaces": ["free"], "runtimeClasses": ["sandbox"]}
    path = pod_security(tmp_path, defaults={"enforce": "baseline", "enforce-version": "v1.30"}, exemptions=exempt)
    with serve(f"--admission-control-config-file={path}", "--disable-admission-plugins=RuntimeClass") as running:
        wire = running.wire()
        created = wire.post("/api/v1/namespaces", {
            "metadata": {"name": "free", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
        })  # fmt: skip
        assert (
            'namespace "free" is exempt from Pod Security, and the policy (enforce=restricted:v1.30) will be ignored'
            in created.headers["warning"].replace("\\", "")
        )
        refused = wire.post(PODS.format("default"), pod("a", hostNetwork=True))
        assert (refused.status, 'violates PodSecurity "baseline:v1.30"' in refused.message) == (403, True)
        wire.create(PODS.format("free"), pod("a", hostNetwork=True))
        sandboxed = pod("b", hostNetwork=True, runtimeClassName="sandbox")
        wire.create(PODS.format("default"), sandboxed)
        counted = wire.get("/metrics").text
        request = 'request_operation="create",resource="pod",subresource=""'
        assert (
            'pod_security_evaluations_total{decision="deny",policy_level="baseline",policy_version="v1.30",'
            f'mode="enforce",{request}}} 1' in counted
        )
        assert f"pod_security_exemptions_total{{{request}}} 2" in counted
        lax = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
        assert wire.patch("/api/v1/namespaces/default", lax).status == 200
        wire.create(PODS.format("default"), pod("a", hostNetwork=True))


def test_errors_of_a_configuration_are_named(tmp_path: Path) -> None:
    path = pod_security(tmp_path, defaults={"enforce": "lax"}, exemptions={"usernames": [""]})
    with pytest.raises(ValueError, match="PodSecurity: ") as error:
        read_admission(path, Features())
    assert str(error.value).endswith(
        '[defaults.enforce: Invalid value: "lax": must be one of privileged, baseline, restricted,'
        ' exemptions.usernames[0]: Invalid value: "": username must not be empty]'
    )


def test_webhooks_are_shown_what_a_kubeconfig_has_for_them(tmp_path: Path) -> None:
    names = ("a.example.com", "b.example.com:8443", "*.example.com", "hook.default.svc", "*")
    users = [{"name": name, "user": {"token": name}} for name in names]
    (tmp_path / "users").write_text(json.dumps({"users": users}))
    kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration"}
    credentials = read_admission(
        plugin_configuration(tmp_path, "MutatingAdmissionWebhook", **kind, kubeConfigFile="users"), Features()
    ).credentials["MutatingAdmissionWebhook"]
    shown = {
        ("a.example.com", 443): "a.example.com", ("a.example.com", 1): "*", ("b.example.com", 8443): names[1],
        ("c.example.com", 443): "*.example.com", ("hook.default.svc", 443): "hook.default.svc", ("127.0.0.1", 9): "*",
    }  # fmt: skip
    assert {place: credentials.of(*place).token for place in shown} == shown
    assert Credentials(token="t").headers() == (("authorization", "Bearer t"),)
    assert read_credentials(tmp_path / "users").of("x.y", 1).token == "*"


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"clusters": ["c"]}, "clusters has no 'c'"),
        ({"clusters": [{"name": "c", "cluster": "x"}]}, "the cluster 'c' is not a mapping"),
        ({"clusters": [{"name": "c", "cluster": {"server": "a", "certificate-authority-data": "?"}}]},
         "certificate-authority-data: "),
    ],
)  # fmt: skip
def test_errors_of_a_kubeconfig_are_named(tmp_path: Path, said: Json, says: str) -> None:
    contexts = [{"name": "a", "context": {"cluster": "c"}}]
    (tmp_path / "config").write_text(json.dumps({"current-context": "a", "contexts": contexts, **said}))
    with pytest.raises(KubeconfigError, match=says):
        read_kubeconfig(tmp_path / "config")
    (tmp_path / "users").write_text(json.dumps({"users": [{"user": {"token": "t"}}]}))
    with pytest.raises(KubeconfigError, match="users must be a list of users with names"):
        read_credentials(tmp_path / "users")


@pytest.mark.real_time
async def test_a_webhook_is_not_called_without_the_configured_token(tmp_path: Path) -> None:
    shown = Credentials(token_file=str(tmp_path / "gone"))
    target = Target("https://127.0.0.1:1/", "127.0.0.1", 1, b"", None, shown)
    webhooks = Webhooks({}, lambda *_: False)

    with pytest.raises(WebhookError, match="the token of this server cannot be read"):
        await webhooks.post(target, b"{}", seconds=5)
