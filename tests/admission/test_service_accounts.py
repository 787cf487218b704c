"""ServiceAccount: the account of a pod, the token of its containers, and its secrets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apiserver.admission.plugins.service_accounts import ServiceAccount
from apiserver.api.objects import Json
from apiserver.registry.store.admission import Attributes
from tests.admission.asking import Situation, refusal


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
def test_the_pod_and_then_its_account_decide_about_the_token(
    pod: bool | None, of_account: bool | None, mounted: bool
) -> None:
    name = "automountServiceAccountToken"
    spec = {"containers": [{"name": "c"}], **({} if pod is None else {name: pod})}
    of: Json = {} if of_account is None else {name: of_account}
    found, _ = with_account(spec, account(**of))
    assert ("volumes" in found) is mounted


def test_a_pod_pulls_with_the_secrets_of_its_account_unless_it_has_its_own() -> None:
    pulls = account(imagePullSecrets=[{"name": "a"}, {}])
    assert with_account({"containers": []}, pulls)[0]["imagePullSecrets"] == [{"name": "a"}, {"name": ""}]
    own = with_account({"containers": [], "imagePullSecrets": [{"name": "b"}]}, pulls)[0]
    assert own["imagePullSecrets"] == [{"name": "b"}]
    assert "imagePullSecrets" not in with_account({"containers": []}, account())[0]


def test_a_missing_account_is_named() -> None:
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
    monkeypatch.setattr("apiserver.admission.plugins.service_accounts._PAUSE", 0)
    looks: list[int] = []

    async def made_after(number: int) -> str:
        looks.clear()
        request = Situation({}).request("CREATE", "pods", {"metadata": {"name": "x"}, "spec": {"containers": []}})

        def lookup(*_: Any) -> Json | None:
            looks.append(1)
            return account() if len(looks) > number else None

        request.ctx.lookup = lookup  # type: ignore[assignment]
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
