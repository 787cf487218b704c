"""Admission policies and webhooks in files: their order, their effect, and invalid files."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.features.gates import Features
from apiserver.api.objects import Json
from apiserver.app import Server
from apiserver.controlplane.static_manifests import ReloadedManifests
from apiserver.options.admission import read_admission
from apiserver.resources.admissionregistration.manifests import ManifestError, Manifests
from tests.http.test_admission_webhooks import ALLOW, MAPS, RULE, WebhookServer, config_map, patch, serve_with_webhooks
from tests.http.widgets import ApiClient, open_server

pytestmark = [pytest.mark.integration, pytest.mark.real_time]

GATE = "ManifestBasedAdmissionControlConfig"
API = "/apis/admissionregistration.k8s.io/v1"
RULES = [RULE, {**RULE, "apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"]}]
ON = Features(settings={GATE: True})


def policy(name: str, says: str, *resources: str, group: str = "") -> Json:
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": list(resources)}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false", "message": says}]}
    return obj("ValidatingAdmissionPolicy", name, spec=spec)


def binding(name: str, policy: str) -> Json:
    return obj("ValidatingAdmissionPolicyBinding", name, spec={"policyName": policy, "validationActions": ["Deny"]})


def bound_policy(name: str, says: str, *resources: str, group: str = "") -> list[Json]:
    return [policy(name, says, *resources, group=group), binding(name, name)]


def obj(kind: str, name: str, **more: Any) -> Json:
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, **more}


def write(path: Path, objects: Iterable[Any]) -> None:
    path.write_text("\n---\n".join(map(json.dumps, objects)))


def admission_flags(directory: Path, **directories: Path) -> list[str]:
    """Return the flags of a server with a directory per plugin; missing directories are made."""
    plugins = []
    for name, path in directories.items():
        path.mkdir(exist_ok=True)
        kind = "WebhookAdmissionConfiguration" if name.endswith("Webhook") else f"{name}Configuration"
        said = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": kind, "staticManifestsDir": str(path)}
        plugins.append({"name": name, "configuration": said})
    path = directory / "admission.yaml"
    version = "apiserver.config.k8s.io/v1"
    path.write_text(json.dumps({"apiVersion": version, "kind": "AdmissionConfiguration", "plugins": plugins}))
    return [f"--admission-control-config-file={path}", f"--feature-gates={GATE}=true"]


def reload_files(server: Server, plugin: str) -> str:
    """Read a plugin's files; return its metrics."""
    followed = ReloadedManifests(server.settings.admission.manifests[plugin], "id")
    followed.reload()
    return "\n".join(line for family in followed.families() for line in family.lines())


async def refusal_of(client: ApiClient, path: str, body: Json) -> str:
    answer = await client.post(path, json=body)
    assert answer.status_code >= 400, answer.text
    return str(answer.json()["message"]).rpartition("denied request: ")[2]


async def test_policies_in_files_come_first_and_cover_admission_configuration_too(tmp_path: Path) -> None:
    files = tmp_path / "policies"
    flags = admission_flags(tmp_path, ValidatingAdmissionPolicy=files)
    admission = "admissionregistration.k8s.io"
    write(files / "a.yaml", bound_policy("b.static.k8s.io", "by file", "configmaps", "subjectaccessreviews"))
    write(files / "b.json", [{"apiVersion": "v1", "kind": "List", "items": bound_policy(
        "c.static.k8s.io", "no policies", "validatingadmissionpolicies", group=admission
    )}])  # fmt: skip
    async with open_server("memory", None, *flags) as (server, client):
        followed = [each for each in server._access.reloaded_files("host") if isinstance(each, ReloadedManifests)]
        assert len(followed) == 1, "the server reads them regularly"
        assert await refusal_of(client, MAPS, config_map("a")) == "by file"
        assert await refusal_of(client, f"{API}/validatingadmissionpolicies", policy("a", "x", "pods")) == "no policies"
        review = {"spec": {"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods"}}}
        answer = await client.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", json=review)
        assert answer.status_code == 201, "reviews are not covered"
        (files / "b.json").unlink()
        os.mkfifo(files / "c.yaml")  # reading it would block
        assert 'success",plugin="ValidatingAdmissionPolicy"' in reload_files(server, "ValidatingAdmissionPolicy")
        for each in bound_policy("a", "by the API", "configmaps", "secrets"):
            await client.create(f"{API}/{each['kind'].lower().replace('policy', 'policie', 1)}s"
                          .replace("policiebinding", "policybinding"), each)  # fmt: skip
        assert await refusal_of(client, MAPS, config_map("a")) == "by file"
        assert (
            await refusal_of(client, MAPS.replace("configmaps", "secrets"), {"metadata": {"name": "a"}}) == "by the API"
        )
        write(files / "a.yaml", [])
        reload_files(server, "ValidatingAdmissionPolicy")
        assert await refusal_of(client, MAPS, config_map("a")) == "by the API"
        answer = await client.post(f"{API}/validatingadmissionpolicies", json=policy("z.static.k8s.io", "x", "pods"))
        assert 'names ending with ".static.k8s.io" are reserved' in answer.json()["message"]


def test_an_unusable_file_changes_nothing_and_is_counted(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", bound_policy("a.static.k8s.io", "no", "pods"))
    manifests = Manifests("ValidatingAdmissionPolicy", tmp_path, ON)
    followed, before = ReloadedManifests(manifests, "id"), manifests.digest
    (tmp_path / "b.yaml").write_text("kind: x")
    followed.reload()
    assert (manifests.digest, len(manifests.objects("validatingadmissionpolicies"))) == (before, 1)
    (tmp_path / "b.yaml").unlink()
    (tmp_path / "a.yaml").unlink()
    followed.reload()
    assert (manifests.digest, manifests.objects("validatingadmissionpolicies")) == ("", [])
    start = "apiserver_manifest_admission_config_controller"
    of = 'plugin="ValidatingAdmissionPolicy",apiserver_id_hash="sha256:'
    counted = [line for family in followed.families() for line in family.lines()]
    for line, value in (
        (f'{start}_automatic_reloads_total{{status="success",{of}', "2"),
        (f'{start}_automatic_reloads_total{{status="failure",{of}', "1"),
        (f"{start}_last_config_info{{{of}", "1"),
    ):
        assert [each.rpartition(" ")[2] for each in counted if each.startswith(line)] == [value], line


def test_only_a_changed_file_is_read_again(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", bound_policy("a.static.k8s.io", "no", "pods"))
    write(tmp_path / "b.yaml", bound_policy("b.static.k8s.io", "no", "pods"))
    manifests = Manifests("ValidatingAdmissionPolicy", tmp_path, ON)
    followed, before = ReloadedManifests(manifests, "id"), manifests.objects("validatingadmissionpolicies")
    write(tmp_path / "b.yaml", bound_policy("b.static.k8s.io", "never", "pods"))
    followed.reload()
    same, other = manifests.objects("validatingadmissionpolicies")
    assert same is before[0]
    assert other["spec"]["validations"][0]["message"] == "never"


def test_a_directory_is_read_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    followed, where = ReloadedManifests(Manifests("ValidatingAdmissionPolicy", tmp_path, ON), "id"), list[int]()
    look = followed._stat

    def record() -> list[tuple[int, int, int]]:
        where.append(threading.get_ident())
        return look()

    monkeypatch.setattr(followed, "_stat", record)
    assert not asyncio.run(followed._changed())
    write(tmp_path / "a.yaml", bound_policy("a.static.k8s.io", "no", "pods"))
    assert asyncio.run(followed._changed())
    assert len(where) == 2
    assert threading.get_ident() not in where


async def test_a_new_webhook_file_invalidates_the_cached_lack_of_webhooks(tmp_path: Path) -> None:
    hooks, secrets = tmp_path / "hooks", MAPS.replace("configmaps", "secrets")
    flags = admission_flags(tmp_path, MutatingAdmissionWebhook=hooks)
    async with serve_with_webhooks(*flags) as at:
        # The server does not write secrets before webhooks are called.
        await at.client.create(secrets, {"metadata": {"name": "before"}})
        rules = [{**RULE, "resources": ["secrets"]}]
        mine = obj("MutatingWebhookConfiguration", "z.static.k8s.io", webhooks=[at.hook("files", rules)])
        write(hooks / "a.yaml", [mine])
        at.script(files=[patch("/data/by", "ZmlsZXM=")])
        reload_files(at.server, "MutatingAdmissionWebhook")
        shown = await at.client.create(secrets, {"metadata": {"name": "asked"}, "data": {"a": ""}})
        assert shown["data"] == {"a": "", "by": "ZmlsZXM="}


async def test_webhooks_and_mutating_policies_in_files_take_part(tmp_path: Path) -> None:
    hooks, policies = tmp_path / "hooks", tmp_path / "policies"
    flags = admission_flags(tmp_path, MutatingAdmissionWebhook=hooks, MutatingAdmissionPolicy=policies)
    async with serve_with_webhooks(*flags) as at:
        await at.client.create(MAPS, config_map("before"))  # the lack of webhooks is cached
        mine = obj("MutatingWebhookConfiguration", "z.static.k8s.io", webhooks=[at.hook("files", RULES)])
        write(hooks / "a.yaml", [mine])
        at.script(files=[patch("/data/by", "files")])
        reload_files(at.server, "MutatingAdmissionWebhook")
        shown = await at.client.create(MAPS, config_map("asked", of="client"))
        assert (shown["data"], "labels" in shown["metadata"]) == ({"by": "files", "of": "client"}, False)
        label = "Object{metadata: Object.metadata{labels: {'by': 'policy'}}}"
        mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": label}}
        spec = {
            "matchConstraints": {"resourceRules": [RULE | {"operations": ["CREATE"]}]}, "mutations": [mutation],
            "reinvocationPolicy": "Never",
        }  # fmt: skip
        name = "a.static.k8s.io"
        write(policies / "a.yaml", [
            obj("MutatingAdmissionPolicy", name, spec=spec),
            obj("MutatingAdmissionPolicyBinding", name, spec={"policyName": name}),
        ])  # fmt: skip
        reload_files(at.server, "MutatingAdmissionPolicy")
        await _ask(at)


async def _ask(at: WebhookServer) -> None:
    at.script(files=[patch("/data/by", "files"), ALLOW], api=[])
    shown = await at.client.create(MAPS, config_map("a", of="client"))
    assert (shown["data"], shown["metadata"]["labels"]) == ({"by": "files", "of": "client"}, {"by": "policy"})
    await at.configure("mutating", {"name": "api", "rules": RULES}, name="a")
    assert [name for name, _ in at.calls()] == ["files", "files"]
    at.script(files=[ALLOW] * 2, api=[ALLOW])
    await at.configure("validating", name="b")
    assert [name for name, _ in at.calls()] == ["files"], "those of the API are not asked about configurations"
    await at.client.create(MAPS, config_map("b"))
    assert [name for name, _ in at.calls()] == ["files", "files", "api"]


WEBHOOK: Json = {
    "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
    "clientConfig": {"service": {"namespace": "a", "name": "b"}},
}  # fmt: skip
NAME = "a.static.k8s.io"


@pytest.mark.parametrize(
    ("plugin", "objects", "says"),
    [
        ("", [policy("a", "x", "pods")], 'must have a name ending with ".static.k8s.io"'),
        ("", [policy(NAME, "x", "pods")] * 2, f'duplicate name "{NAME}" found in file'),
        ("", [binding(NAME, "a")], 'spec.policyName "a" must end with ".static.k8s.io"'),
        ("", [binding(NAME, NAME)], f'"{NAME}" references policy "{NAME}" which does not exist'),
        ("", [binding(NAME, NAME) | {"x": 1}], 'strict decoding error: unknown field "x"'),
        ("", [obj("ValidatingAdmissionPolicy", NAME)], f'ValidatingAdmissionPolicy "{NAME}": ['),
        ("", [obj("MutatingAdmissionPolicy", NAME)], "unsupported resource type *v1.MutatingAdmissionPolicy"),
        ("", [{"apiVersion": "v1", "kind": "Pod"}], 'no kind "Pod" is registered for version "v1"'),
        ("", [{"apiVersion": "v1", "kind": "List", "items": [{}]}], "Object 'Kind' is missing"),
        ("", [{"apiVersion": "v1", "kind": "List", "items": 1}], "items are no list"),
        ("", [obj("ValidatingAdmissionPolicyList", NAME, items=1)], "items are no list"),
        ("", [{"apiVersion": "v1", "kind": "List", "items": [{"kind": 1}]}], "json parse error"),
        ("Webhook", [obj("ValidatingWebhookConfiguration", NAME, webhooks=[WEBHOOK])], "use clientConfig.url instead"),
    ],
)  # fmt: skip
def test_errors_of_a_file_are_named(tmp_path: Path, plugin: str, objects: list[Json], says: str) -> None:
    write(tmp_path / "a.yml", objects)
    with pytest.raises(ManifestError) as error:
        Manifests(f"ValidatingAdmission{plugin or 'Policy'}", tmp_path, ON)
    assert says in str(error.value)


@pytest.mark.parametrize("of", ["paramKind", "paramRef"])
def test_policies_in_files_have_no_parameters(tmp_path: Path, of: str) -> None:
    objects = bound_policy(NAME, "x", "pods")
    if of == "paramKind":
        objects[0]["spec"][of] = {"apiVersion": "v1", "kind": "ConfigMap"}
    else:
        objects[1]["spec"][of] = {"name": "a", "parameterNotFoundAction": "Deny"}
    write(tmp_path / "a.yml", objects)
    with pytest.raises(ManifestError, match=f"spec.{of} is not supported for static manifests"):
        Manifests("ValidatingAdmissionPolicy", tmp_path, ON)


def test_a_directory_is_read_only_with_the_gate(tmp_path: Path) -> None:
    flag = admission_flags(tmp_path, ValidatingAdmissionPolicy=tmp_path / "a")[0]
    path = Path(flag.partition("=")[2])
    with pytest.raises(ValueError, match=f"Forbidden: staticManifestsDir requires the {GATE} feature gate"):
        read_admission(path, Features())
    assert list(read_admission(path, ON).manifests) == ["ValidatingAdmissionPolicy"]
    (tmp_path / "a").rmdir()
    with pytest.raises(ValueError, match=r"staticManifestsDir: Invalid value: .*no such file or directory"):
        read_admission(path, ON)
