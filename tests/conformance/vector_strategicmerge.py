"""Patch vectors: strategic merge, merge and JSON patches, and what the results are as objects of their kinds."""

from __future__ import annotations

from typing import Any

import orjson

from apiserver.api.codec.codec import DecodeError, decode
from apiserver.api.patch import PatchError, json_patch, merge_patch, strategic_merge_patch
from apiserver.api.schema.language import Struct
from apiserver.api.types.apps import Deployment
from apiserver.api.types.core.configuration import ConfigMap
from apiserver.api.types.core.nodes import Node
from apiserver.api.types.core.pods import Pod
from apiserver.api.types.core.services import Service
from apiserver.api.types.resource import v1
from apiserver.api.values.go_json import syntax_error
from apiserver.registry.body.convert import strip_empty
from apiserver.registry.body.unstructured import find_type_mismatch
from tests.conformance.vectors import Case, Skipped, expect

_KINDS: dict[str, Struct] = {
    "ConfigMap": ConfigMap,
    "Deployment": Deployment,
    "DeviceClass": v1.DeviceClass,
    "Node": Node,
    "Pod": Pod,
    "ResourceClaim": v1.ResourceClaim,
    "ResourceSlice": v1.ResourceSlice,
    "Service": Service,
}


def handle(case: Case) -> Skipped | str | None:
    """One patch, then its result as a typed object."""
    schema = _KINDS[case["kind"]]
    try:
        result = _patched(schema, case)
    except PatchError as error:
        expect("error", str(error), case.get("error"))
        return None
    expect("error", None, case.get("error"))
    expect("result", result, case["result"])
    _typed(schema, case, result)
    return None


def _patched(schema: Struct, case: Case) -> Any:
    body = case["patchText"].encode()
    wrong = syntax_error(body)
    kind = case["patchType"]
    if wrong:
        raise PatchError(
            {"json": f"decode: {wrong}", "merge": "Invalid JSON Patch", "strategic": "invalid JSON document"}[kind]
        )
    patch = orjson.loads(body)
    if kind == "strategic":
        return strategic_merge_patch(schema, case["original"], {} if patch is None else patch)
    if kind == "merge":
        return merge_patch(case["original"], patch)
    try:
        return json_patch(case["original"], patch or [])
    except PatchError as error:
        raise PatchError(f"decode: {error}" if error.status == 400 else str(error)) from None


def _typed(schema: Struct, case: Case, result: Any) -> None:
    wanted = case.get("typedError")
    if case["patchType"] == "strategic":
        found = find_type_mismatch(schema, result)
        if found is not None or wanted is not None:
            expect("typedError", found, wanted)
            return
    try:
        obj = decode(schema, result).obj
    except DecodeError as error:
        expect("typedError", str(error), wanted)
        return
    expect("typedError", None, wanted)
    expect("typedResult", strip_empty(schema, obj), case["typedResult"])
