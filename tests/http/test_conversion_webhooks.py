"""Custom resources with a conversion webhook."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.objects import Json
from tests.conformance.webhook import Webhook
from tests.http.test_custom_resources import DEFINITIONS, define, definition
from tests.http.widgets import ApiClient, open_server, watch_events
from tests.support.extensions import make_rule, make_version, make_webhook

pytestmark = [pytest.mark.integration, pytest.mark.real_time]

BASE = "/apis/example.com/{}/namespaces/default/widgets"
V1, V2 = BASE.format("v1"), BASE.format("v2")
#: A host in v1 is an address in v2, which has a label besides.
MOVES: Json = {
    "v2": [
        {"op": "move", "from": "/spec/host", "path": "/spec/address"},
        {"op": "add", "path": "/metadata/labels", "value": {"seen": "v2"}},
    ],
    "v1": [{"op": "move", "from": "/spec/address", "path": "/spec/host"}],
}


@contextmanager
def converting(*names: str) -> Iterator[Webhook]:
    webhook = Webhook(*names)
    webhook.script({"/convert": [{"convert": MOVES}]})
    try:
        yield webhook
    finally:
        webhook.close()


def versions(storage: str) -> list[Json]:
    def schema(field: str) -> Json:
        fields = {field: {"type": "string"}, "size": {"type": "string"}}
        return {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}

    named = (("v1", "host"), ("v2", "address"))
    return [make_version(name, schema(field), storage=name == storage) for name, field in named]


def converted_definition(webhook: Webhook, storage: str = "v1", **config: Any) -> Json:
    made = definition()
    client = config or {"url": f"https://{webhook.address}/convert"}
    made["spec"]["versions"] = versions(storage)
    made["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {**client, "caBundle": webhook.authority}},
    }
    return made


def widget(version: str, name: str, **spec: str) -> Json:
    return {"apiVersion": f"example.com/{version}", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def list_reviews(webhook: Webhook) -> list[tuple[str, list[str]]]:
    """Return the desired version and the objects of each review since the last call."""
    requests = [call["body"]["request"] for call in webhook.calls()]
    webhook.script({"/convert": [{"convert": MOVES}]})
    return [
        (request["desiredAPIVersion"].rpartition("/")[2], [item["metadata"]["name"] for item in request["objects"]])
        for request in requests
    ]


async def spec(client: ApiClient, path: str) -> Json:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()["spec"]
    return found


async def test_an_object_is_read_from_the_version_in_which_it_was_stored(tmp_path: Path) -> None:
    with converting() as webhook:
        async with open_server("sqlite", tmp_path) as (_, client):
            await define(client, converted_definition(webhook))
            await client.create(V1, widget("v1", "old", host="h"))
            change = {"spec": {"versions": versions("v2")}}
            path = f"{DEFINITIONS}/widgets.example.com"
            changed = await client.merge(path, change)
            assert changed.json()["status"]["storedVersions"] == ["v1", "v2"]
            await client.create(V2, widget("v2", "new", address="a"))
        async with open_server("sqlite", tmp_path) as (_, client):
            list_reviews(webhook)
            assert await spec(client, f"{V1}/old") == {"host": "h"}
            assert await spec(client, f"{V2}/new") == {"address": "a"}
            assert list_reviews(webhook) == []
            assert await spec(client, f"{V2}/old") == {"address": "h"}
            assert await spec(client, f"{V1}/new") == {"host": "a"}
            assert list_reviews(webhook) == [("v2", ["old"]), ("v1", ["new"])]
            gone = await client.merge(path, {"spec": {"conversion": {"strategy": "None", "webhook": None}}})
            assert gone.status_code == 200, gone.text
            listed = (await client.get(V2)).json()["items"]
            assert [(item["apiVersion"], item["spec"]) for item in listed] == [
                ("example.com/v2", {"address": "a"}), ("example.com/v2", {}),
            ]  # fmt: skip


async def test_a_list_is_one_review_and_selects_by_the_labels_of_its_version() -> None:
    with converting() as webhook:
        async with open_server() as (_, client):
            await define(client, converted_definition(webhook))
            for name in ("a", "b", "c"):
                await client.create(V1, widget("v1", name, host=name))
            found = (await client.get(V2, params={"labelSelector": "seen=v2", "limit": 2})).json()
            assert [item["spec"]["address"] for item in found["items"]] == ["a", "b"]
            assert list_reviews(webhook) == [("v2", ["a", "b", "c"])]
            more = {"labelSelector": "seen=v2", "limit": 2, "continue": found["metadata"]["continue"]}
            rest = (await client.get(V2, params=more)).json()
            assert [item["spec"]["address"] for item in rest["items"]] == ["c"]
            for limit in (0, 3, 4):
                whole = (await client.get(V2, params={"labelSelector": "seen=v2", "limit": limit})).json()
                assert [item["spec"]["address"] for item in whole["items"]] == ["a", "b", "c"]
                assert not whole["metadata"].get("continue")
            assert (await client.get(V1, params={"labelSelector": "seen=v2"})).json()["items"] == []
            assert await spec(client, f"{V2}/a?resourceVersion=0") == {"address": "a"}
            assert list_reviews(webhook) == []
            assert await spec(client, f"{V2}/a") == {"address": "a"}  # the newest state is converted per request
            assert list_reviews(webhook) == [("v2", ["a"])]


async def test_watchers_of_a_version_share_a_review_and_end_with_an_error_where_it_fails() -> None:
    with converting() as webhook:
        async with open_server() as (_, client):
            await define(client, converted_definition(webhook))
            async with watch_events(client, V2) as one, watch_events(client, V2) as other:
                await client.create(V1, widget("v1", "a", host="h"))
                for events in (one, other):
                    event = await anext(events)
                    assert (event["type"], event["object"]["spec"]) == ("ADDED", {"address": "h"})
                assert list_reviews(webhook) == [("v2", ["a"])]
                webhook.script(
                    {"/convert": [{"convert": MOVES, "result": {"status": "Failed", "message": "not today"}}]}
                )
                await client.merge(f"{V1}/a", {"spec": {"size": "m"}})
                event = await anext(one)
                assert event["type"] == "ERROR"
                assert "not today" in event["object"]["message"]


@pytest.mark.parametrize("size", [1, 20_000], ids=["short", "long"])
async def test_a_write_in_another_version_keeps_the_fields_of_other_managers(size: int) -> None:
    with converting() as webhook:
        async with open_server() as (_, client):
            await define(client, converted_definition(webhook))
            await client.create(f"{V1}?fieldManager=first", widget("v1", "a", host="h"))
            change = {"spec": {"size": "x" * size}}
            changed = await client.merge(f"{V2}/a?fieldManager=second", change)
            assert changed.status_code == 200, changed.text
            owners = {
                (entry["manager"], entry["apiVersion"]): sorted(entry["fieldsV1"]["f:spec"])
                for entry in changed.json()["metadata"]["managedFields"]
            }
            assert owners == {("first", "example.com/v1"): [".", "f:host"], ("second", "example.com/v2"): ["f:size"]}
            assert await spec(client, f"{V1}/a") == {"host": "h", "size": "x" * size}


OWN_ADDRESS = "--service-address=default/hook:443={}"


@pytest.mark.parametrize(
    ("name", "flag", "text"),
    [
        ("hook.default.svc", OWN_ADDRESS, '"address":"h"'),
        ("hook.default.svc", "--service-address=default/other=127.0.0.1:1", 'service \\"hook\\" not found'),
        ("other", OWN_ADDRESS, "x509: certificate is valid for other, 127.0.0.1, not hook.default.svc"),
    ],
)
async def test_a_service_is_found_by_its_address_and_verified_by_its_name(name: str, flag: str, text: str) -> None:
    with converting(name) as webhook:
        async with open_server("memory", None, flag.format(webhook.address)) as (_, client):
            await define(
                client,
                converted_definition(webhook, service={"namespace": "default", "name": "hook", "path": "/convert"}),
            )
            await client.create(V1, widget("v1", "a", host="h"))
            answer = await client.get(f"{V2}/a")
            assert text in answer.text
            assert answer.status_code == (200 if text == '"address":"h"' else 500)


async def test_admission_sees_an_object_in_the_version_that_a_rule_names_also_where_many_are_deleted() -> None:
    rule = make_rule("widgets", group="example.com")
    with converting() as webhook:
        async with open_server() as (_, client):
            await define(client, converted_definition(webhook))
            url = f"https://{webhook.address}/v"
            config = {"url": url, "caBundle": webhook.authority}
            hook = make_webhook("v", url, rule, clientConfig=config)
            configuration = {"metadata": {"name": "v"}, "webhooks": [hook]}
            path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
            await client.create(path, configuration)
            webhook.script({"/convert": [{"convert": MOVES}], "/v": [{"allowed": True}]})
            for name in ("a", "b", "c"):
                await client.create(V2, widget("v2", name, address="h"))
            assert (await client.delete(f"{V2}/a")).status_code == 200
            assert (await client.delete(V2)).status_code == 200
            seen = [call["body"]["request"] for call in webhook.calls() if call["path"].startswith("/v?")]
            assert [(one["operation"], (one["object"] or one["oldObject"])["spec"]) for one in seen] == [
                *[("CREATE", {"host": "h"})] * 3, *[("DELETE", {"host": "h"})] * 3,
            ]  # fmt: skip
            for name in ("a", "b", "c"):
                await client.create(V2, widget("v2", name, address="h"))
            webhook.script({"/convert": [{"convert": MOVES}], "/v": [{"allowed": True}, {"allowed": False}]})
            refused = await client.delete(V2)
            assert (refused.status_code, refused.json()["message"]) == (
                400, 'admission webhook "v.example.com" denied the request without explanation',
            )  # fmt: skip
            assert [item["metadata"]["name"] for item in (await client.get(V2)).json()["items"]] == ["b", "c"]
            assert len([call for call in webhook.calls() if call["path"].startswith("/v?")]) == 2


async def test_a_server_starts_although_a_webhook_for_everything_is_down(tmp_path: Path) -> None:
    every = make_rule("*", group="*", versions=("*",))
    hook = make_webhook("v", "https://127.0.0.1:9/", every)
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    async with open_server("sqlite", tmp_path) as (_, client):
        await client.create(path, {"metadata": {"name": "v"}, "webhooks": [hook]})
    async with open_server("sqlite", tmp_path, "--authorization-mode=RBAC") as (_, client):
        assert (await client.delete(f"{path}/v")).status_code in (200, 403)
