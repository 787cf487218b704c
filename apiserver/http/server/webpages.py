"""Protection of a server with open access against web pages.

A browser on the same machine can reach loopback addresses for any page: a form or a `no-cors` fetch sends requests, and
a page's own name that resolves to 127.0.0.1 (DNS rebinding) even reads the responses. With open access nothing else
checks the origin of a request, so these are refused:

* requests for a host that is neither this machine nor accepted by `--accept-hosts`
* requests that may change something, upgrades among them, from a page of another origin (Origin, Sec-Fetch-Site): also
  one on another port of this machine, because a command in a container may be one request away (`--run`)
* bodies of a browser in a type that a plain form can send, or in none

Programs are not affected: they send no Origin, and their configured address as Host.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

from apiserver.api.errors.status import StatusError
from apiserver.http.formats.errors import status_response
from apiserver.request.messages import Request, Response

__all__ = ["WebPages"]

_PORTS: Final = {"http": 80, "https": 443}
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: Content types that a page may send anywhere without a preflight (Fetch: CORS-safelisted), and none.
_FORMS: Final = frozenset({"", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})
_KNOWN_HOSTS: Final = 256
_LONGEST_HOST: Final = 300


class WebPages:
    """Detects requests that may be from a page elsewhere. `accepted` are further hosts, `*` all of them."""

    def __init__(self, bound: str, accepted: Iterable[str] = ()) -> None:
        self._accepted = frozenset(name.lower().rstrip(".") for name in accepted)
        self._bound = bound
        #: Cached Host fields of this machine.
        self._known: set[str] = set()

    def refusal(self, request: Request) -> Response | None:
        """Return 403 for a request that may be a web page's, else None."""
        headers = request.headers
        host = headers.get("host", "")
        if host not in self._known and not self._is_ours(host):
            return _build_refusal(request, f"it does not serve the host {_quote(host)}; --accept-hosts adds hosts")
        if request.method in _SAFE and "upgrade" not in headers:
            return None
        if problem := self._foreign(headers):
            return _build_refusal(request, problem)
        return None

    def _is_ours(self, host: str) -> bool:
        """Return whether a Host field is this machine's; cache positive results.

        A name of one label cannot be a page's own: outsiders cannot give it an address (it is a service of Docker
        Compose, or of /etc/hosts).
        """
        name = _name(host)
        ours = (
            "*" in self._accepted
            or name in self._accepted
            or ("." not in name and ":" not in name)
            or name.endswith(".localhost")
            or name == self._bound
            or _is_loopback(name)
        )
        if ours and len(self._known) < _KNOWN_HOSTS and len(host) <= _LONGEST_HOST:
            self._known.add(host)
        return ours

    def _foreign(self, headers: Mapping[str, str]) -> str:
        """Return the refusal of a request that may change something; "" if it is accepted."""
        for origin in filter(None, headers.get("origin", "").split(", ")):
            if not self._is_own_origin(origin, headers.get("host", "")):
                return f"it takes no changes from the web page {_quote(origin)}; --accept-hosts adds hosts"
        site = headers.get("sec-fetch-site", "same-origin").lower()
        if site != "same-origin" and (site != "none" or "upgrade" in headers):
            return "it takes no changes from a web page of another origin"
        if not headers.get("user-agent", "").startswith("Mozilla/"):
            return ""
        if headers.get("content-type", "").partition(";")[0].strip().lower() in _FORMS:
            return "it takes a browser's changes with a content type of their own alone, such as application/json"
        return ""

    def _is_own_origin(self, origin: str, host: str) -> bool:
        """Return whether an origin is the server that the request addresses, or a host of `--accept-hosts`."""
        try:
            page, server = urlsplit(origin), urlsplit(f"//{host}")
            default = _PORTS.get(page.scheme)
            if default is None or not page.hostname:
                return False
            if not self._accepted.isdisjoint(("*", page.hostname.rstrip("."))):
                return True
            return (page.hostname, page.port or default) == (server.hostname, server.port or default)
        except ValueError:
            return False


def _name(host: str) -> str:
    """Return the name or address of a Host field, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower().rstrip(".")


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _quote(text: str) -> str:
    return repr(text[:100])


def _build_refusal(request: Request, why: str) -> Response:
    message = f"access to this server is open to programs of this machine, not to web pages: {why}"
    return status_response(request, StatusError(403, "Forbidden", message))
