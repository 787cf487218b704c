"""Parse the method, path and query of a request into its resource and verb. Paths are split, not matched by patterns.

/api/v1/...                           the core group
/apis/GROUP/VERSION/...               every other
    RESOURCE[/NAME[/SUBRESOURCE...]]
    namespaces/NS/RESOURCE[/NAME[/SUBRESOURCE...]]
    watch/...                         the old form of a watch
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qsl, unquote

__all__ = ["LONG_RUNNING", "RequestInfo", "parse_query", "request_info"]

#: Subresources without a request timeout.
LONG_RUNNING: Final = frozenset({"attach", "exec", "log", "portforward", "proxy"})

#: Subresources of namespaces, after /namespaces/NAME/.
_OF_NAMESPACES: Final = frozenset({"status", "finalize"})
#: Matches a parameter named watch, or one with an encoded name.
_MAY_WATCH: Final = re.compile("(?:^|&)(?:watch|[^=&]*%)")
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}
#: The verbs without a name in the path.
_WITHOUT_NAME: Final = {"get": "list", "delete": "deletecollection"}
#: Group, version, resource and namespace of collections, cached by path: most requests are for few of them, or for
#: their objects. The length of a cached path and the number of entries are bounded.
_COLLECTIONS: Final[dict[str, tuple[str, str, str, str]]] = {}
_KEPT: Final = 2000
_MOST_PARAMETERS: Final = 10_000
_SHORT: Final = 300
#: The segment after one of these is not always an object's name.
_AMBIGUOUS: Final = frozenset({"namespaces", "watch"})


class RequestInfo:
    """The resource, object and verb of a request.

    `resource` is "" for a path that names no resource (discovery, health); `verb` is then the method in lower case.
    """

    __slots__ = ("group", "name", "namespace", "resource", "rest", "subresource", "verb", "version")

    def __init__(
        self,
        verb: str,
        group: str = "",
        version: str = "",
        resource: str = "",
        namespace: str = "",
        name: str = "",
        below: Sequence[str] = (),
    ) -> None:
        """Set the parts; `below` are the path segments after the name."""
        self.verb, self.group, self.version, self.resource = verb, group, version, resource
        self.namespace, self.name = namespace, name
        if below:
            #: `rest` is the path after the subresource (a proxied path).
            self.subresource, self.rest = below[0], tuple(below[1:])
        else:
            self.subresource, self.rest = "", ()


def request_info(method: str, path: str, query: str = "") -> RequestInfo:
    """Return the resource, object and verb of a request."""
    collection = _COLLECTIONS.get(path)
    if collection is not None:
        verb = _VERBS.get(method, "")
        if verb in _WITHOUT_NAME:
            verb = "watch" if query and verb == "get" and _asks_to_watch(query) else _WITHOUT_NAME[verb]
        group, version, resource, namespace = collection
        return RequestInfo(verb, group, version, resource, namespace)
    above, _, last = path.rpartition("/")
    collection = _COLLECTIONS.get(above)
    if collection is not None and last and "%" not in last:
        group, version, resource, namespace = collection
        return RequestInfo(_VERBS.get(method, ""), group, version, resource, namespace, last)
    above, _, name = above.rpartition("/")
    collection = _COLLECTIONS.get(above)
    if collection is not None and name and last and "%" not in name and "%" not in last:
        group, version, resource, namespace = collection
        return RequestInfo(_VERBS.get(method, ""), group, version, resource, namespace, name, (last,))
    return _parse(method, path, query)


def _parse(method: str, path: str, query: str) -> RequestInfo:
    # As in Go's server, a path is decoded before it is split.
    parts = (unquote(path) if "%" in path else path).split("/")
    count = len(parts)
    if count > 4 and parts[1] == "apis":
        at = 4
    elif count > 3 and parts[1] == "api":
        at = 3
    else:
        return RequestInfo(method.lower())
    if not parts[at] or not parts[2]:
        return RequestInfo(method.lower())
    verb = _VERBS.get(method, "")  # other methods are no verbs of resources
    group, version = parts[2] if at == 4 else "", parts[at - 1]
    old_watch = parts[at] == "watch" and count > at + 1
    if parts[-1] == "" and count > at + old_watch + 1:
        del parts[-1]
    # namespace, resource, name, subresource…
    found = parts[at + old_watch :]
    if found[0] != "namespaces":
        found.insert(0, "")
    elif len(found) > 2 and found[2] not in _OF_NAMESPACES:
        del found[0]
    else:
        found.insert(0, found[1] if len(found) > 1 else "")
    namespace, resource, name, *below = found if len(found) > 2 else (*found, "")
    if not name:
        verb = _WITHOUT_NAME.get(verb, verb)
        if not (old_watch or below or path[-1] == "/" or "%" in path or resource in _AMBIGUOUS):
            _remember(path, (group, version, resource, namespace))
    if old_watch or (query and verb == "list" and _asks_to_watch(query)):
        verb = "watch"
    return RequestInfo(verb, group, version, resource, namespace, name, below)


def _remember(path: str, collection: tuple[str, str, str, str]) -> None:
    if len(path) <= _SHORT:
        if len(_COLLECTIONS) >= _KEPT:
            _COLLECTIONS.clear()
        _COLLECTIONS[path] = collection


def parse_query(query: str) -> list[tuple[str, str]]:
    """Return the parameters of a query; none if there are too many.

    Facts: Go's net/url (`urlmaxqueryparams`), whose error apiserver ignores.
    """
    return parse_qsl(query, keep_blank_values=True) if query.count("&") < _MOST_PARAMETERS else []


def _asks_to_watch(query: str) -> bool:
    """Parse the parameter: any value but 0 and false is true, also the empty one; the first one wins."""
    if _MAY_WATCH.search(query) is None:
        return False
    given = next((value for name, value in parse_query(query) if name == "watch"), "0")
    return given != "0" and given.lower() != "false"
