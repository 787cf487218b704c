"""A path's meaning: which resource, which object, which verb. Splitting only; no pattern is matched one by one.

/api/v1/...                           the core group
/apis/GROUP/VERSION/...               every other
    RESOURCE[/NAME[/SUBRESOURCE...]]
    namespaces/NS/RESOURCE[/NAME[/SUBRESOURCE...]]
    watch/...                         the old form of a watch
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

#: What may follow /namespaces/NAME/ and belongs to the namespace itself.
_OF_NAMESPACES: Final = frozenset({"status", "finalize"})
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}


class Target:
    """What a request is about. `resource` is "" for a path that names no resource (discovery, health)."""

    __slots__ = ("group", "name", "namespace", "resource", "rest", "subresource", "verb", "version", "watch")

    def __init__(self) -> None:
        self.group = self.version = self.resource = self.subresource = self.namespace = self.name = self.verb = ""
        #: Path segments after the subresource (a proxied path).
        self.rest: tuple[str, ...] = ()
        #: An old /watch/ path.
        self.watch = False


def parse(method: str, path: str) -> Target | None:
    """The target of a path under /api or /apis that names a resource; None for any other."""
    parts = path.split("/")
    if len(parts) < 2:
        return None
    if parts[1] == "api":
        head, target = 3, Target()
        target.version = parts[2] if len(parts) > 2 else ""
    elif parts[1] == "apis":
        head, target = 4, Target()
        if len(parts) > 3:
            target.group, target.version = parts[2], parts[3]
    else:
        return None
    if len(parts) <= head or not parts[head]:
        return None
    if "%" in path:
        parts = [unquote(part) for part in parts]
    if parts[head] == "watch" and len(parts) > head + 1:
        target.watch = True
        head += 1
    _locate(target, parts, head)
    target.verb = _VERBS.get(method, method.lower())
    if not target.name:
        if target.verb == "get":
            target.verb = "list"
        elif target.verb == "delete":
            target.verb = "deletecollection"
    if target.watch:
        target.verb = "watch"
    return target


def undecoded(raw: bytes) -> str:
    """A path as it was sent, for `parse`: a segment may hold an encoded slash, so they are decoded one by one."""
    return quote(raw, safe="/%:@!$&'()*+,;=-._~")


def _locate(target: Target, parts: list[str], at: int) -> None:
    """Fill in namespace, resource, name and subresource from the segments after the version."""
    if parts[-1] == "" and len(parts) > at + 1:
        parts = parts[:-1]
    count = len(parts) - at
    if parts[at] == "namespaces" and count > 2 and parts[at + 2] not in _OF_NAMESPACES:
        target.namespace = parts[at + 1]
        at, count = at + 2, count - 2
    elif parts[at] == "namespaces" and count > 1:
        target.namespace = parts[at + 1]
    target.resource = parts[at]
    if count > 1:
        target.name = parts[at + 1]
    if count > 2:
        target.subresource = parts[at + 2]
        target.rest = tuple(parts[at + 3 :])
