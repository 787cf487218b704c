"""The words of a refusal."""

from __future__ import annotations

from typing import Final

from apiserver.api.status import StatusError, qualified
from apiserver.authorization.authorizer import Authorizer
from apiserver.messages import User
from apiserver.registry.authority import Question

__all__ = ["Authorizer", "Question", "denied", "denied_path"]

#: Error texts must not look like HTML.
_SAFE: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})

_HEADERS: Final = (("X-Content-Type-Options", "nosniff"),)


def denied(user: User, question: Question, reason: str = "") -> StatusError:
    """403 in upstream's words."""
    verb, group, resource, subresource, namespace, name, _ = question
    what = f"{resource}/{subresource}" if subresource else resource
    scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    cause = f'User "{user.name}" cannot {verb} resource "{what}" in API group "{group}" {scope}'.translate(_SAFE)
    subject = f'{qualified(resource, group)} "{name}"' if name else qualified(resource, group)
    details = {"name": name, "group": group, "kind": resource}
    message = f"{subject} is forbidden: {cause}"
    return StatusError(
        403,
        "Forbidden",
        f"{message}: {reason}" if reason else message,
        {key: value for key, value in details.items() if value},
        _HEADERS,
    )


def denied_path(user: User, verb: str, path: str, reason: str = "") -> StatusError:
    """403 for a path that names no resource."""
    message = "forbidden: " + f'User "{user.name}" cannot {verb.lower()} path "{path}"'.translate(_SAFE)
    return StatusError(403, "Forbidden", f"{message}: {reason}" if reason else message, {}, _HEADERS)
