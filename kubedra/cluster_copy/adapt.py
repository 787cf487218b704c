"""The changes that make objects usable in a copy: secrets, nodes, webhooks of definitions, missing owners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from kubedra.runtime.objects import Json

__all__ = ["adapt_definition", "adapt_node", "drop_missing_owners", "is_token", "redact_secret"]

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_TOKEN: Final = "kubernetes.io/service-account-token"  # noqa: S105 - a type
#: The node agent keeps nodes with this annotation alive.
_EMULATED: Final = "kubedra.dev/emulated"


def is_token(secret: Json) -> bool:
    """Return whether a Secret has a token of a service account."""
    return bool(secret.get("type") == _TOKEN)


def redact_secret(secret: Json) -> None:
    """Empty the values of a Secret. Its keys stay, also in a kubectl annotation that repeats the values."""
    secret["data"] = dict.fromkeys(secret.get("data") or {}, "")
    if not secret["data"]:
        del secret["data"]
    annotations = secret["metadata"].get("annotations") or {}
    annotations.pop(_LAST_APPLIED, None)
    if not annotations:
        secret["metadata"].pop("annotations", None)


def adapt_node(node: Json) -> None:
    """Let the node agent run a node that was ready. A node that was not stays as it is."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    if any(each["type"] == "Ready" and each["status"] == "True" for each in conditions):
        metadata = node["metadata"]
        metadata["annotations"] = {**(metadata.get("annotations") or {}), _EMULATED: "true"}


def adapt_definition(definition: Json) -> bool:
    """Make the storage version the only stored one, without a conversion webhook. Return whether there was one.

    A copy has all custom objects in that version, and the webhook cannot be reached from it.
    """
    spec = definition["spec"]
    stored = [version["name"] for version in spec["versions"] if version.get("storage")]
    definition.setdefault("status", {})["storedVersions"] = stored
    has_webhook = (spec.get("conversion") or {}).get("strategy") == "Webhook"
    if has_webhook:
        spec["conversion"] = {"strategy": "None"}
    return has_webhook


def drop_missing_owners(objects: Iterable[Json]) -> Counter[str]:
    """Remove owner references to objects that are not copied, and return their number by kind.

    The garbage collector would delete the objects that have only such owners.
    """
    objects = [*objects]
    present = {each["metadata"].get("uid") for each in objects}
    dropped: Counter[str] = Counter()
    for each in objects:
        metadata = each["metadata"]
        owners = metadata.get("ownerReferences")
        if not owners:
            continue
        kept = [owner for owner in owners if owner["uid"] in present]
        dropped.update(owner["kind"] for owner in owners if owner["uid"] not in present)
        metadata["ownerReferences"] = kept
        if not kept:
            del metadata["ownerReferences"]
    return dropped
