"""Secrets with service account tokens: filled, deleted with their account, and cleaned up when they are unused."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.runtime.clock import now
from controllers.cluster.secret_token_cleaner import build as cleaner
from controllers.cluster.secret_tokens import OF_ACCOUNTS
from controllers.options.options import Options
from controllers.runtime.kinds import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS
from tests.scheduler.world import World
from tests.support.objects import make_pod
from tests.support.recording import RecordingClient, build
from tests.support.virtual import passes

pytestmark = pytest.mark.integration

TOKENS, CLEANER = "serviceaccount-token-controller", "legacy-serviceaccount-token-cleaner-controller"
ACCOUNT: Json = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": "ns"}}
NAME, UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"
LAST_USED, INVALID = "kubernetes.io/legacy-token-last-used", "kubernetes.io/legacy-token-invalid-since"
TRACKING = "kube-apiserver-legacy-service-account-token-tracking"


def make_secret(name: str = "s", account: str = "a", **metadata: Any) -> Json:
    annotations = {NAME: account, **metadata.pop("annotations", {})}
    metadata = {"name": name, "namespace": "ns", "annotations": annotations, **metadata}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/service-account-token"}


def decode(secret: Json) -> dict[str, str]:
    return {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}


async def exists(world: World, name: str) -> bool:
    return any(found["metadata"]["name"] == name for found in await world.items(SECRETS))


# --- the tokens


async def test_a_secret_gets_a_token_its_namespace_and_the_servers_ca() -> None:
    async with World(TOKENS, options={"root_ca": "PEM"}) as world:
        account = await world.create(SERVICE_ACCOUNTS, ACCOUNT)
        await world.create(SECRETS, make_secret())
        secret = await world.until(SECRETS, "ns/s", lambda found: (found.get("data") or {}).get("token"))
    data = decode(secret)
    assert (data["ca.crt"], data["namespace"]) == ("PEM", "ns")
    payload = data["token"].split(".")[1]
    prefix = "kubernetes.io/serviceaccount/"
    assert json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))) == {
        "iss": "kubernetes/serviceaccount",
        f"{prefix}namespace": "ns",
        f"{prefix}secret.name": "s",
        f"{prefix}service-account.name": "a",
        f"{prefix}service-account.uid": account["metadata"]["uid"],
        "sub": "system:serviceaccount:ns:a",
    }
    assert secret["metadata"]["annotations"] == {NAME: "a", UID: account["metadata"]["uid"]}
    assert {entry["manager"] for entry in secret["metadata"]["managedFields"]} == {"test", "kube-controller-manager"}


async def test_removed_data_is_restored_and_own_data_stays() -> None:
    async with World(TOKENS, options={"root_ca": "PEM"}) as world:
        await world.create(SERVICE_ACCOUNTS, ACCOUNT)
        await world.create(SECRETS, {**make_secret(), "data": {"mine": "eA=="}})
        first = await world.until(SECRETS, "ns/s", lambda found: "token" in found["data"])
        other = base64.b64encode(b"OLD").decode()
        await world.client.patch(SECRETS, "s", {"data": {"ca.crt": other, "namespace": None}}, "ns", type="merge")
        second = await world.until(SECRETS, "ns/s", lambda found: decode(found).get("ca.crt") == "PEM")
        assert second["data"] == first["data"]


@pytest.mark.parametrize("annotations", [{}, {UID: "another"}])
async def test_a_secret_without_its_account_is_deleted(annotations: dict[str, str]) -> None:
    async with World(TOKENS) as world:
        if annotations:
            await world.create(SERVICE_ACCOUNTS, ACCOUNT)
        await world.create(SECRETS, make_secret(annotations=annotations), {**make_secret("other"), "type": "Opaque"})
        await passes(1)
        assert not await exists(world, "s")
        assert await exists(world, "other")


async def test_the_secrets_of_a_deleted_account_are_deleted() -> None:
    async with World(TOKENS) as world:
        for name in ("a", "b"):
            await world.create(SERVICE_ACCOUNTS, {**ACCOUNT, "metadata": {"name": name, "namespace": "ns"}})
        await world.create(SECRETS, make_secret("one"), make_secret("two"), make_secret("others", "b"))
        await passes(1)
        await world.client.delete(SERVICE_ACCOUNTS, "a", "ns")
        await passes(1)
        assert [found["metadata"]["name"] for found in await world.items(SECRETS)] == ["others"]


async def test_a_deleted_secret_leaves_the_accounts_list() -> None:
    async with World(TOKENS) as world:
        await world.create(SERVICE_ACCOUNTS, {**ACCOUNT, "secrets": [{"name": "kept"}, {"name": "s"}]})
        await world.create(SECRETS, make_secret())
        await passes(1)
        await world.client.delete(SECRETS, "s", "ns")
        account = await world.until(SERVICE_ACCOUNTS, "ns/a", lambda found: len(found["secrets"]) == 1)
        assert account["secrets"] == [{"name": "kept"}]


async def test_a_server_without_such_tokens_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    async with World(TOKENS) as world:
        await world.create(SERVICE_ACCOUNTS, ACCOUNT)
        forward = world.client.transport.request

        async def refuse(method: str, path: str, *rest: Any) -> Any:
            return (
                (404, (), b"404 page not found") if path.startswith("/openid/") else await forward(method, path, *rest)
            )

        world.client.transport.request = refuse  # type: ignore[method-assign, assignment]
        await world.create(SECRETS, make_secret("one"), make_secret("two"))
        await passes(10)
        for found in await world.items(SECRETS):
            assert "token" not in (found.get("data") or {})
    assert caplog.text.count("this server does not sign the tokens of Secrets") == 1


# --- the clean-up

PERIOD = timedelta(days=10)


def at(days: int) -> str:
    return (now() + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


def day(days: int) -> str:
    return at(days)[:10]


async def clean(
    *,
    since: str | None = "",
    created: int = -30,
    listed: bool = True,
    pods: Sequence[Json] = (),
    labels: Json | None = None,
) -> RecordingClient:
    """Clean up once. The only Secret was created before so many days, and its account lists it or not."""
    client = RecordingClient()
    client.field_selectors["Secret"] = OF_ACCOUNTS
    metadata: Json = {"uid": "s-uid", "resourceVersion": "7", "creationTimestamp": at(created), "labels": labels or {}}
    account: Json = {
        **ACCOUNT,
        "metadata": {**ACCOUNT["metadata"], "uid": "a-uid"},
        "secrets": [{"name": "s"}] * listed,
    }
    data = {} if since is None else {"since": since or day(-40)}
    tracking = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": TRACKING}, "data": data}
    build(cleaner, client, make_secret(**metadata), account, *pods, live=[tracking], legacy_token_clean_up=PERIOD)
    return await client.reconcile("")


async def test_an_unused_generated_secret_is_first_marked_as_invalid() -> None:
    client = await clean()
    assert client.bodies("patch") == [("s", {"metadata": {"uid": "s-uid", "labels": {INVALID: day(0)}}})]
    assert client.requeue_after == timedelta(days=1)
    assert (await clean(labels={INVALID: "yesterday"})).verbs == ["patch"], "no day"
    assert (await clean(labels={LAST_USED: day(-11)})).verbs == ["patch"]


async def test_an_invalid_secret_is_deleted_after_the_period() -> None:
    assert (await clean(labels={INVALID: day(-9)})).verbs == []
    client = await clean(labels={INVALID: day(-11)})
    assert client.bodies("delete") == [("ns/s", {"resource_version": "7"})]


VOLUME = {"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}


@pytest.mark.parametrize(
    "given",
    [
        {"listed": False},
        {"created": -9},
        {"labels": {LAST_USED: day(-9)}},
        {"labels": {LAST_USED: "yesterday"}},
        {"pods": [make_pod("p", namespace="ns", volumes=[VOLUME])]},
        {"pods": [make_pod("p", namespace="ns", imagePullSecrets=[{"name": "s"}])]},
        {"since": day(-10)},
        {"since": "soon"},
        {"since": None},
    ],
)
async def test_a_secret_that_may_be_in_use_stays(given: dict[str, Any]) -> None:
    assert (await clean(**given)).verbs == []


async def test_the_cleaner_runs_at_the_start() -> None:
    async with World(CLEANER) as world:
        created = await world.client.get(CONFIG_MAPS, TRACKING, "kube-system")
        assert created["data"] == {"since": day(0)}
        assert world.manager.idle


def test_the_default_period_is_a_year() -> None:
    assert Options().legacy_token_clean_up == timedelta(days=365)
