"""Build the options object of a connect request, such as PodExecOptions, for admission.

Facts: pkg/apis/core/v1, conversion of url.Values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apiserver.api.errors.field_errors import go_quote
from apiserver.api.errors.status import bad_request
from apiserver.api.objects import Json

if TYPE_CHECKING:
    from apiserver.request.messages import Request

__all__ = ["PROXY", "attach_options", "exec_options", "port_forward_options", "proxy_options", "split_target"]


#: The verbs of proxied requests.
PROXY: Final = ("create", "delete", "get", "patch", "update")
_SCHEMES: Final = ("http", "https", "")
_STREAMS: Final = ("stdin", "stdout", "stderr", "tty")


def _streams(request: Request) -> Json:
    made: Json = {name: True for name in _STREAMS if _is_set(request.params.get(name))}
    container = (request.params.get("container") or [""])[0]
    return {**made, "container": container} if container else made


def _is_set(values: list[str] | None) -> bool:
    """Return whether a flag is set: without a value, or with any value but "false" and "0"."""
    return values is not None and (not values or values[0].lower() not in ("false", "0"))


def attach_options(request: Request) -> Json:
    return _streams(request)


def exec_options(request: Request) -> Json:
    command = request.params.get("command")
    return {**_streams(request), **({"command": command} if command else {})}


def port_forward_options(request: Request) -> Json:
    ports = [int(port) for port in request.params.get("ports") or () if port.isascii() and port.isdigit()]
    return {"ports": ports} if ports else {}


def proxy_options(request: Request) -> Json:
    """Return the proxied path with its slashes."""
    rest = "/".join(request.info.rest)
    path = f"/{rest}" if rest else ""
    if request.path.endswith("/") and not path.endswith("/"):
        path += "/"
    return {"path": path} if path else {}


def split_target(text: str, what: str) -> tuple[str, str, str]:
    """Split the target NAME, NAME:PORT or SCHEME:NAME:PORT into scheme, name and port. Raise 400."""
    parts = text.split(":")
    scheme, name, port = ("", *parts, "")[:3] if len(parts) < 3 else (*parts, "", "")[:3]
    if len(parts) > 3 or not name or scheme not in _SCHEMES:
        raise bad_request(f"invalid {what} request {go_quote(text)}")
    return scheme, name, port
