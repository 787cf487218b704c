"""What a request is about, read from its path. Splitting only; no pattern is matched one by one.

/api/v1/...                           the core group
/apis/GROUP/VERSION/...               every other
    RESOURCE[/NAME[/SUBRESOURCE...]]
    namespaces/NS/RESOURCE[/NAME[/SUBRESOURCE...]]
    watch/...                         the old form of a watch
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

from apiserver.messages import Request, RequestInfo
from apiserver.registry.body.options import is_watch

#: What may follow /namespaces/NAME/ and belongs to the namespace itself.
_OF_NAMESPACES: Final = frozenset({"status", "finalize"})
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}
#: The verbs without a name in the path.
_WITHOUT_NAME: Final = {"get": "list", "delete": "deletecollection"}


def parse(request: Request) -> RequestInfo:
    """The resource, object and verb of a request; `resource` is "" outside /api and /apis, and where their path names
    none.
    """
    path, method = request.path, request.method
    parts = path.split("/")
    count = len(parts)
    if count > 4 and parts[1] == "apis":
        at = 4
    elif count > 3 and parts[1] == "api":
        at = 3
    else:
        return RequestInfo(method.lower())
    if not parts[at]:
        return RequestInfo(method.lower())
    if "%" in path:
        parts = [unquote(part) for part in parts]
    verb = _VERBS.get(method) or method.lower()
    group, version = parts[2] if at == 4 else "", parts[at - 1]
    old_watch = parts[at] == "watch" and count > at + 1
    namespace, resource, name, *below = _located(parts, at + old_watch)
    if not name:
        verb = _WITHOUT_NAME.get(verb, verb)
    if old_watch or (request.query and verb == "list" and is_watch(request.params)):
        verb = "watch"
    return RequestInfo(verb, group, version, resource, namespace, name, below)


def _located(parts: list[str], at: int) -> list[str]:
    """[namespace, resource, name, subresource…] from the segments after the version."""
    if parts[-1] == "" and len(parts) > at + 1:
        parts = parts[:-1]
    found = parts[at:]
    if found[0] != "namespaces":
        found.insert(0, "")
    elif len(found) > 2 and found[2] not in _OF_NAMESPACES:
        del found[0]
    else:
        found.insert(0, found[1] if len(found) > 1 else "")
    if len(found) < 3:
        found.append("")
    return found


def undecoded(raw: bytes) -> str:
    """A path as it was sent, for `parse`: a segment may hold an encoded slash, so they are decoded one by one."""
    return quote(raw, safe="/%:@!$&'()*+,;=-._~")
