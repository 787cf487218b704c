"""How an error shows what a forbidden update would have changed: a unified diff of the two specs as JSON of upstream's internal type."""

from __future__ import annotations

import difflib
import json
from typing import Any, Final

from apiserver.api.types.core.pods import PodSpec
from apiserver.api.types.meta import ObjectMeta
from apiserver.resources.internal import internal

__all__ = ["internal_spec", "internal_template", "spec_diff"]

Json = dict[str, Any]

#: Fields that internally belong to the security context, at its beginning.
_MOVED: Final = ("HostNetwork", "HostPID", "HostIPC", "ShareProcessNamespace", "HostUsers")
_ALIAS: Final = "ServiceAccount"


def internal_spec(spec: Json) -> Json:
    """A pod's spec in the form in which errors show it."""
    shown: Json = internal(PodSpec, spec)
    shown.pop(_ALIAS, None)
    moved = {name: shown.pop(name, None) for name in _MOVED}
    if shown.get("SecurityContext") is not None:
        shown["SecurityContext"] = {**moved, **shown["SecurityContext"]}
    return shown


def internal_template(template: Json) -> Json:
    """A template of pods likewise: members of its metadata stand beside its spec."""
    return {**internal(ObjectMeta, template.get("metadata")), "Spec": internal_spec(template["spec"])}


def _lines(spec: Json) -> list[str]:
    text = json.dumps(internal_spec(spec), indent=1, ensure_ascii=False)
    for char, escaped in (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e")):
        text = text.replace(char, escaped)
    return [line + "\n" for line in text.split("\n")]


def spec_diff(old: Json, new: Json) -> str:
    """Without the two lines of file names."""
    return "".join(list(difflib.unified_diff(_lines(old), _lines(new), n=3))[2:])
