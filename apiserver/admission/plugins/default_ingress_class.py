"""DefaultIngressClass: an ingress without a class gets the default class.

Of several default classes the newest wins, of equally old ones the first by name
(plugin/pkg/admission/network/defaultingressclass).
"""

from __future__ import annotations

from apiserver.api.helpers.ingress_classes import CLASS_ANNOTATION, is_default_class
from apiserver.api.values.times import parse_time
from apiserver.registry.definition.resource import Resource
from apiserver.registry.store.admission import Attributes, Plugin

__all__ = ["DefaultIngressClass"]


class DefaultIngressClass(Plugin):
    name = "DefaultIngressClass"
    operations = frozenset({"CREATE"})

    def handles(self, resource: Resource) -> bool:
        return (resource.group, resource.plural) == ("networking.k8s.io", "ingresses")

    def admit(self, attributes: Attributes) -> None:
        obj = attributes.obj
        if attributes.subresource or obj is None or obj["spec"].get("ingressClassName") is not None:
            return
        if CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {}):
            return
        found = attributes.ctx.all_of("networking.k8s.io", "ingressclasses")
        classes = [item["metadata"] for item in found if is_default_class(item)]
        if classes:
            newest = min(classes, key=lambda meta: (-parse_time(meta["creationTimestamp"]).timestamp(), meta["name"]))
            obj["spec"]["ingressClassName"] = newest["name"]
