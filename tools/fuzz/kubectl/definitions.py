"""The commands of a sequence about a custom kind of its own."""

from __future__ import annotations

from typing import Any

from tools.fuzz.kubectl.sequences import Command, Writer


def define(w: Writer) -> list[Command]:
    """Define a custom kind, work with an object of it, and delete the definition."""
    group = f"{w.namespace}.example.com"
    crd = f"crd/widgets.{group}"
    name, files = w.file(_definition(group, w))
    spec = w.pick(
        {"size": 3},
        {"size": 3, "more": {"a": 1}},
        {"size": -1},
        {"size": "x"},
        {"unknown": 1},
        {},
        {"size": 3, "tags": ["a", "a"]},
    )
    widget = {
        "apiVersion": f"{group}/v1",
        "kind": "Widget",
        "metadata": {"name": "a", "labels": {"app": "a"}},
        "spec": spec,
    }
    other, more = w.file(widget)
    made = [
        w.command("apply", "-f", name, *w.pick((), ("--server-side",)), files=files),
        w.command("wait", "--for=condition=Established", crd, "--timeout=20s"),
        w.command(w.pick("apply", "create"), "-f", other, files=more),
    ]
    choices: tuple[tuple[str, ...], ...] = (
        ("get", "widgets"), ("get", "wd", "a", "-o", "yaml"), ("get", "things", "-o", "wide"), ("describe", f"widgets.{group}", "a"), ("explain", "widgets.spec"), ("get", crd, "-o", "yaml"),
        ("patch", "widgets", "a", "--type=merge", "-p", w.pick('{"spec":{"size":9}}', '{"spec":{"size":"9"}}', '{"spec":null}')), ("patch", "widgets", "a", "--subresource=status", "--type=merge", "-p", '{"status":{"ready":2}}'),
        ("scale", "widget/a", "--replicas=4"), ("label", "widget", "a", "k=v"), ("delete", "widget", "a", "--timeout=5s"), ("api-resources", f"--api-group={group}"), ("get", "widgets.v1beta1." + group, "-o", "yaml"),
        ("apply", "-f", other, "--server-side", "--force-conflicts"), ("get", "widgets", "--field-selector=spec.size=3"), ("patch", "widgets", "a", "--type=strategic", "-p", "{}"), ("edit", "widgets", "a"),
    )  # fmt: skip
    reading = ("get", "describe", "explain", "api-resources")
    made += [w.command(*given, reads=given[0] in reading) for given in w.random.sample(choices, 4)]
    return [*made, w.command("delete", crd, "--timeout=20s")]


def _definition(group: str, w: Writer) -> dict[str, Any]:
    size: dict[str, Any] = {
        "type": "integer",
        **w.pick(
            {},
            {"minimum": 0},
            {"default": 1},
            {"x-kubernetes-validations": [{"rule": "self < 8", "message": "too big"}]},
        ),
    }
    tags = {
        "type": "array",
        "items": {"type": "string"},
        **w.pick({}, {"x-kubernetes-list-type": "set"}, {"maxItems": 1}),
    }
    spec = {
        "type": "object",
        "properties": {"size": size, "tags": tags},
        **w.pick({}, {"required": ["size"]}, {"x-kubernetes-preserve-unknown-fields": True}),
    }
    status = {"type": "object", "properties": {"ready": {"type": "integer"}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}
    parts = w.pick(
        {},
        {"status": {}},
        {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.ready"}},
        {"scale": {"specReplicasPath": "spec.size"}},
    )
    columns = w.pick(
        {},
        {
            "additionalPrinterColumns": [
                {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                {"name": "Tags", "type": "string", "jsonPath": ".spec.tags", "priority": 1},
            ]
        },
        {"selectableFields": [{"jsonPath": ".spec.size"}]},
    )
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema, "subresources": parts, **columns}]
    if w.chance(0.3):
        versions.append({"name": "v1beta1", "served": True, "storage": False, "schema": schema, "deprecated": True})
    names = {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "shortNames": ["wd"],
        "categories": ["things"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": versions},
    }  # fmt: skip
