"""DefaultTolerationSeconds: a pod tolerates an unready or unreachable node for 300 s unless it sets another time.

Facts: plugin/pkg/admission/defaulttolerationseconds.
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.registry.definition.resource import Resource
from apiserver.registry.store.admission import Attributes, Plugin

__all__ = ["DefaultTolerationSeconds"]

SECONDS: Final = 300
_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class DefaultTolerationSeconds(Plugin):
    name = "DefaultTolerationSeconds"
    operations = frozenset({"CREATE", "UPDATE"})

    def handles(self, resource: Resource) -> bool:
        return resource.plural == "pods" and not resource.group

    def admit(self, attributes: Attributes) -> None:
        if attributes.subresource or attributes.obj is None:
            return
        spec: dict[str, Any] = attributes.obj.setdefault("spec", {})
        given = spec.get("tolerations") or []
        missing = [taint for taint in _TAINTS if not any(_tolerates(toleration, taint) for toleration in given)]
        if missing:
            spec["tolerations"] = given + [
                {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}
                for taint in missing
            ]


def _tolerates(toleration: dict[str, Any], taint: str) -> bool:
    return toleration.get("key", "") in (taint, "") and toleration.get("effect", "") in ("NoExecute", "")
