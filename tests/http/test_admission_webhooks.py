"""Admission webhooks over a socket: which requests they review, and the effect of their answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.app import Server
from apiserver.webhooks.client import Webhooks, target_of
from apiserver.webhooks.failures import WebhookError
from tests.conformance.webhook import Webhook
from tests.http.test_custom_resources import define
from tests.http.widgets import ApiClient, open_server
from tests.support.extensions import make_definition, make_rule, make_version, make_webhook
from tests.support.server import serve

pytestmark = [pytest.mark.integration, pytest.mark.real_time]

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"
MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
RULE: Json = make_rule("configmaps")
ALLOW: Json = {"allowed": True}


def patch(path: str, value: Any) -> Json:
    return {"allowed": True, "patch": [{"op": "add", "path": path, "value": value}]}


class WebhookServer:
    """A server and its webhook server. `calls` are the paths and requests since the last `script`."""

    def __init__(self, server: Server, client: ApiClient, webhook: Webhook) -> None:
        self.server, self.client, self.webhook = server, client, webhook

    async def configure(self, type: str, *webhooks: Json, name: str = "hooks") -> None:
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{type.title()}WebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [self.hook(**item) for item in webhooks],
        }
        await self.client.create(CONFIGURATIONS.format(type), body)

    def hook(self, name: str, rules: Sequence[Json] = (RULE,), **more: Any) -> Json:
        """Return a webhook that is called at /NAME."""
        url = f"https://{self.webhook.address}/{name}"
        config = {"url": url, "caBundle": self.webhook.authority}
        return make_webhook(name, url, *rules, **{"clientConfig": config, **more})

    def script(self, **answers: Sequence[Json]) -> None:
        self.webhook.script({f"/{name}": script for name, script in answers.items()})

    def calls(self) -> list[tuple[str, Json]]:
        return [
            (call["path"].partition("?")[0].removeprefix("/"), call["body"]["request"]) for call in self.webhook.calls()
        ]


@asynccontextmanager
async def serve_with_webhooks(*flags: str) -> AsyncIterator[WebhookServer]:
    webhook = Webhook()
    try:
        async with open_server("memory", None, *flags) as (server, client):
            yield WebhookServer(server, client, webhook)
    finally:
        await asyncio.to_thread(webhook.close)


def config_map(name: str, **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def deployment(name: str, version: str = "v1") -> Json:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": f"apps/{version}", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }  # fmt: skip


async def test_a_webhook_is_reinvoked_after_a_later_change_if_its_policy_says_so() -> None:
    async with serve_with_webhooks() as hooks:
        await hooks.configure(
            "mutating",
            {"name": "first", "reinvocationPolicy": "IfNeeded"},
            {"name": "second", "reinvocationPolicy": "Never"},
            {"name": "third", "reinvocationPolicy": "IfNeeded"},
        )
        hooks.script(first=[ALLOW, patch("/data/first", "again")], second=[patch("/data/second", "1")], third=[ALLOW])
        made = await hooks.client.create(MAPS, config_map("a", k="v"))
        assert made["data"] == {"k": "v", "second": "1", "first": "again"}
        # The third saw what the second did, and is asked again for what the first did then; there is no third round.
        assert [name for name, _ in hooks.calls()] == ["first", "second", "third", "first", "third"]
        hooks.script(first=[ALLOW], second=[ALLOW], third=[ALLOW])
        await hooks.client.create(MAPS, config_map("b", k="v"))
        assert [name for name, _ in hooks.calls()] == ["first", "second", "third"]
        # A webhook that has seen the last change is not called again.
        hooks.script(first=[ALLOW], second=[ALLOW], third=[patch("/data/third", "1"), ALLOW])
        await hooks.client.create(MAPS, config_map("c", k="v"))
        assert [name for name, _ in hooks.calls()] == ["first", "second", "third", "first"]


async def test_a_rule_for_one_version_holds_for_the_others_and_its_webhook_sees_its_own() -> None:
    rule = make_rule("widgets", group="example.com", operations="CREATE")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = make_definition(
        "widgets", "Widget", make_version("v1", schema), make_version("v2", schema, storage=False)
    )
    async with serve_with_webhooks() as hooks:
        await define(hooks.client, definition)
        await hooks.configure(
            "mutating", {"name": "same", "rules": [rule]}, {"name": "exact", "rules": [rule], "matchPolicy": "Exact"}
        )
        hooks.script(same=[patch("/spec", {"seen": True})], exact=[ALLOW])
        body = {"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "w"}}
        made = await hooks.client.create("/apis/example.com/v2/namespaces/default/widgets", body)
        assert (made["apiVersion"], made["spec"]) == ("example.com/v2", {"seen": True})
        ((name, request),) = hooks.calls()
        assert (name, request["kind"]["version"], request["requestKind"]["version"]) == ("same", "v1", "v2")
        assert request["object"]["apiVersion"] == "example.com/v1"


async def test_webhooks_see_each_deleted_object_and_cannot_change_it() -> None:
    async with serve_with_webhooks() as hooks:
        for name in ("a", "b"):
            await hooks.client.create(MAPS, config_map(name, k=name))
        await hooks.configure("validating", {"name": "v", "rules": [{**RULE, "operations": ["DELETE"]}]})
        hooks.script(v=[ALLOW])
        assert (await hooks.client.delete(MAPS)).status_code == 200
        seen = sorted((r.get("name"), r["object"], r["oldObject"]["data"]["k"]) for _, r in hooks.calls())
        assert seen == [(None, None, "a"), (None, None, "b")]
        await hooks.client.create(MAPS, config_map("c"))
        await hooks.configure("mutating", {"name": "m"})
        hooks.script(m=[patch("/data", {})], v=[ALLOW])
        refused = (await hooks.client.delete(f"{MAPS}/c")).json()
        assert refused["message"] == (
            'Internal error occurred: admission webhook "m.example.com" attempted to modify the object, which is not'
            " supported for this operation"
        )


#: An answer, the code and a part of the text with which the request ends.
_NONE: list[tuple[Json, int, str]] = [
    ({"allowed": True, "uid": "other"}, 500, 'received invalid webhook response: expected response.uid="'),
    ({"allowed": True, "patchType": "JSONPatch"}, 500, "webhook returned response.patchType but not response.patch"),
    ({"allowed": True, "patch": "{"}, 500, "received undecodable patch in webhook response: unexpected end of JSON"),
    ({"allowed": True, "patch": [{"op": "remove", "path": "/data/none"}]}, 500, "Unable to remove nonexistent key"),
    ({"allowed": True, "patch": [{"op": "add", "path": "/data", "value": 5}]}, 500, "cannot unmarshal number"),
    ({"raw": "hello"}, 500, "json: cannot unmarshal string into Go value of type struct { APIVersion string"),
    ({"raw": "{"}, 500, "couldn't get version/kind; json parse error: unexpected end of JSON input"),
    ({"http": 429, "raw": ""}, 500, "the server has received too many requests and has asked us to try again later"),
    (patch("/metadata/name", "Not A Name"), 422, "Invalid value"),
]


async def test_an_invalid_answer_ends_the_request() -> None:
    async with serve_with_webhooks() as hooks:
        await hooks.configure("mutating", {"name": "m"})
        for answer, code, text in _NONE:
            hooks.script(m=[answer])
            refused = await hooks.client.post(MAPS, json=config_map("a", k="v"))
            assert (refused.status_code, text in refused.json()["message"]) == (code, True), refused.text
        assert (await hooks.client.get(f"{MAPS}/a")).status_code == 404


async def test_a_webhook_call_ends_with_its_timeout() -> None:
    webhook, webhooks = Webhook(), Webhooks({}, lambda *_: False)
    webhook.script({"/v": [{"delay": 0.3, "allowed": True}]})
    config = {"url": f"https://{webhook.address}/v", "caBundle": webhook.authority}
    late = r"^Post \"https://127.0.0.1:\d+/v\?timeout=1s\": context deadline exceeded$"
    try:
        with pytest.raises(WebhookError, match=late):
            await webhooks.post(target_of(config), b"{}", seconds=0.05)
    finally:
        await webhooks.close()
        webhook.close()


async def test_patched_objects_are_defaulted_and_owned_by_the_requester() -> None:
    rule = make_rule("deployments", group="apps", operations="CREATE")
    sidecar = {"name": "sidecar", "image": "s", "ports": [{"containerPort": 80}]}
    async with serve_with_webhooks() as hooks:
        await hooks.configure("mutating", {"name": "m", "rules": [rule]})
        hooks.script(m=[patch("/spec/template/spec/containers/-", sidecar)])
        made = await hooks.client.create(DEPLOYMENTS, deployment("d"))
        containers = made["spec"]["template"]["spec"]["containers"]
        assert [item["name"] for item in containers] == ["c", "sidecar"]
        assert containers[1]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
        hooks.script(m=[patch("/metadata/managedFields", [{"manager": "broken"}])])
        answer = await hooks.client.post(DEPLOYMENTS, json=deployment("e"))
        assert answer.status_code == 201
        assert "managedFields was in an invalid state" in answer.headers["warning"]
        assert answer.json()["metadata"]["managedFields"][0]["operation"] == "Update"


async def test_an_unreachable_webhook_is_skipped_if_its_policy_allows_it_and_counted() -> None:
    async with serve_with_webhooks() as hooks:
        nowhere = {"url": "https://127.0.0.1:9/"}
        await hooks.configure(
            "validating", {"name": "gone", "failurePolicy": "Ignore", "clientConfig": nowhere}, {"name": "here"}
        )
        hooks.script(
            here=[{"allowed": True, "auditAnnotations": {"why": "because"}, "warnings": ["odd"]}, {"allowed": False}]
        )
        made = await hooks.client.post(MAPS, json=config_map("a"))
        assert (made.status_code, made.headers["warning"]) == (201, '299 - "odd"')
        records = [record.to_dict() for record in hooks.server.requests.latest()]
        assert records[0]["annotations"] == {
            "failed-open.validating.webhook.admission.k8s.io/round_0_index_0": "gone.example.com",
            "here.example.com/why": "because",
        }
        assert (await hooks.client.post(MAPS, json=config_map("b"))).status_code == 400
        metrics = (await hooks.client.get("/metrics")).text
        for line in (
            'webhook_fail_open_count{name="gone.example.com",type="validating"} 2',
            'webhook_rejection_count{error_type="no_error",name="here.example.com",rejection_code="400"} 1',
        ):
            assert _has(metrics, line), metrics[-3000:]


def _has(metrics: str, wanted: str) -> bool:
    """Return whether a sample exists, in any order of its labels."""
    name, _, rest = wanted.partition("{")
    labels, _, value = rest.partition("} ")
    return any(
        line.startswith(f"apiserver_admission_{name}{{")
        and line.endswith(f"}} {value}")
        and all(label in line for label in labels.split('",'))
        for line in metrics.splitlines()
    )


async def test_a_webhook_is_not_called_if_its_conditions_or_selectors_exclude_the_request() -> None:
    async with serve_with_webhooks() as hooks:
        conditions = [{"name": "big", "expression": "object.data.size() > 1"}]
        await hooks.configure("validating", {"name": "v", "matchConditions": conditions})
        hooks.script(v=[{"allowed": False}])
        await hooks.client.create(MAPS, config_map("a", k="v"))
        assert hooks.calls() == []
        assert (await hooks.client.post(MAPS, json=config_map("b", k="v", l="w"))).status_code == 400
        change = {"webhooks": [hooks.hook("v", objectSelector={"matchLabels": {"x": "y"}})]}
        path = f"{CONFIGURATIONS.format('validating')}/hooks"
        assert (await hooks.client.merge(path, change)).status_code == 200
        await hooks.client.create(MAPS, config_map("b", k="v", l="w"))
        applied = await hooks.client.apply(f"{MAPS}/c?fieldManager=m", config_map("c") | {"metadata": {"name": "c", "labels": {"x": "y"}}})  # fmt: skip
        assert applied.status_code == 400


@pytest.mark.parametrize("flags", [(), ("--disable-admission-plugins=ValidatingAdmissionWebhook",)], ids=["on", "off"])
async def test_the_plugin_can_be_disabled_and_configurations_are_not_reviewed(flags: tuple[str, ...]) -> None:
    every = make_rule("*/*", group="*", versions=("*",))
    async with serve_with_webhooks(*flags) as hooks:
        await hooks.configure("validating", {"name": "v", "rules": [every]})
        hooks.script(v=[{"allowed": False}])
        answer = await hooks.client.post(MAPS, json=config_map("a"))
        assert answer.status_code == (201 if flags else 400)
        path = f"{CONFIGURATIONS.format('validating')}/hooks"
        assert (await hooks.client.delete(path)).status_code == 200


async def test_audit_annotations_have_the_changes_of_webhooks_by_round_and_index() -> None:
    async with serve_with_webhooks() as hooks:
        again: Json = {"reinvocationPolicy": "IfNeeded"}
        await hooks.configure("mutating", {"name": "a", **again}, {"name": "b"}, name="first")
        nowhere = {"url": "https://127.0.0.1:9/"}
        gone: Json = {"name": "c", "failurePolicy": "Ignore", "clientConfig": nowhere}
        await hooks.configure("mutating", gone, name="second")
        hooks.script(a=[ALLOW], b=[patch("/data/b", "1")])
        await hooks.client.create(MAPS, config_map("x", k="v"))
        (record,) = [r for r in hooks.server.requests.latest() if r.to_dict()["verb"] == "create"][:1]
        notes = record.to_dict()["annotations"]
        key = "mutation.webhook.admission.k8s.io/round_{}_index_{}".format
        assert [json.loads(notes[key(*at)])["mutated"] for at in ((0, 0), (0, 1), (1, 0))] == [False, True, False]
        assert json.loads(notes["patch.webhook.admission.k8s.io/round_0_index_1"]) == {
            "configuration": "first", "webhook": "b.example.com", "patchType": "JSONPatch",
            "patch": [{"op": "add", "path": "/data/b", "value": "1"}],
        }  # fmt: skip
        failed = {name for name in notes if name.startswith("failed-open.")}
        assert failed == {"failed-open.mutation.webhook.admission.k8s.io/round_0_index_2"}


async def test_events_are_shown_to_webhooks_of_either_group_that_has_them() -> None:
    async with serve_with_webhooks() as hooks:
        await hooks.configure("validating", {"name": "v", "rules": [{**RULE, "resources": ["events"]}]})
        hooks.script(v=[ALLOW])
        event: Json = {
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "reason": "R",
            "action": "A", "type": "Normal", "note": "n", "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "c.example.com", "reportingInstance": "i", "regarding": {"namespace": "default"},
        }  # fmt: skip
        await hooks.client.create("/apis/events.k8s.io/v1/namespaces/default/events", event)
        ((_, asked_for),) = hooks.calls()
        assert (asked_for["resource"]["group"], asked_for["requestResource"]["group"]) == ("", "events.k8s.io")
        assert (asked_for["object"]["apiVersion"], asked_for["object"]["message"]) == ("v1", "n")


async def test_a_webhook_has_the_time_that_the_client_gives_the_request() -> None:
    """The webhook gets the time that is left. Without any, the request fails whatever the failure policy is."""
    async with serve_with_webhooks() as hooks:
        more: Json = {"timeoutSeconds": 20, "failurePolicy": "Ignore"}
        await hooks.configure("validating", {"name": "v", **more})
        hooks.script(v=[ALLOW])
        await hooks.client.create(MAPS + "?timeout=3s", config_map("a"))
        assert [call["path"] for call in hooks.webhook.calls()] == ["/v?timeout=3s"]
        hooks.script(v=[{"delay": 0.3, **ALLOW}])
        late = await hooks.client.post(MAPS + "?timeout=50ms", json=config_map("b"))
        assert (late.status_code, late.headers["content-type"]) == (504, "text/plain; charset=utf-8")
        assert "request did not complete within the allotted timeout" in late.text
        assert (await hooks.client.get(f"{MAPS}/b")).status_code == 404


async def test_a_slow_webhook_delays_no_other_request() -> None:
    async with serve_with_webhooks() as hooks:
        await hooks.configure("validating", {"name": "v", "objectSelector": {"matchLabels": {"slow": "1"}}})
        held = asyncio.Event()
        hooks.script(v=[{"delay": 0.3, "allowed": True}])

        async def slow() -> None:
            body: Mapping[str, Any] = config_map("slow") | {"metadata": {"name": "slow", "labels": {"slow": "1"}}}
            await hooks.client.create(MAPS, dict(body))
            held.set()

        waiting = asyncio.ensure_future(slow())
        while not hooks.calls():
            await asyncio.sleep(0)
        await hooks.client.create(MAPS, config_map("quick"))
        assert not held.is_set()
        await waiting


def test_built_in_objects_are_restored_although_their_webhook_is_down(tmp_path: Path) -> None:
    path = "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking"
    flags = ("--storage=sqlite", f"--data-dir={tmp_path}")
    hook = make_webhook("down", "https://127.0.0.1:1", {**RULE, "operations": ["CREATE"]})
    body = {"metadata": {"name": "hooks"}, "webhooks": [hook]}
    with serve(*flags) as server:
        server.wire().create(CONFIGURATIONS.format("validating"), body)
        assert server.wire().delete(path).status == 200
    with serve(*flags) as server:
        assert server.wire().get(path).status == 200
        assert server.wire().post(MAPS, {"metadata": {"name": "a"}}).status == 500
