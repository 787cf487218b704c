"""/statusz and /flagz: the state and the flags of a server, for people, or as JSON or YAML.

JSON and YAML need the kind in Accept (`application/json;g=config.k8s.io;v=v1beta1;as=Statusz`).
Facts: KEP-4827, KEP-4828.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from apiserver.api.objects import Json
from apiserver.api.values.times import timestamp
from apiserver.http.formats.encoding import encode
from apiserver.http.formats.negotiation import JSON, YAML, Clause, clauses, not_acceptable
from apiserver.request.messages import Request, Response
from apiserver.runtime.clock import now

__all__ = ["About", "ZPages"]


_COMPONENT: Final = "apiserver"
_GROUP: Final = "config.k8s.io"
_VERSIONS: Final = ("v1alpha1", "v1beta1")
_TEXT: Final = "text/plain; charset=utf-8"
_HEAD: Final = """
{component} {page}
Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for \
debugging purposes only.
"""
#: Pages of kubedra's own, which upstream does not have.
_OWN: Final = frozenset({"-", "docs", "openapi.json"})
#: Paths of APIs, excluded from the pages for people.
_APIS: Final = frozenset({"api", "apis", "openid", "openapi", ".well-known"})


class About(NamedTuple):
    """Facts about the running server; `language` is its runtime."""

    started: datetime
    language: str
    version: str
    emulated: str
    flags: Mapping[str, str]


class ZPages:
    """Responses for the enabled pages; `paths` returns the server's paths."""

    def __init__(self, pages: Sequence[str], about: About, paths: Callable[[], list[str]]) -> None:
        self.pages = tuple(pages)
        self._about, self._paths = about, paths

    def answer(self, request: Request, page: str) -> Response:
        """Render a page. Raise 406."""
        kind = page.capitalize()
        accept = request.headers.get("accept", "")
        for clause in clauses(accept) if accept.strip() else (Clause("text/plain", {}),):
            version = _version(clause, kind)
            if version:
                made = {
                    "kind": kind,
                    "apiVersion": f"{_GROUP}/{version}",
                    "metadata": {"name": _COMPONENT},
                    **(self._status() if page == "statusz" else {"flags": dict(sorted(self._about.flags.items()))}),
                }
                return Response(200, encode(clause.media, made), clause.media, _deprecation(page, version))
            if clause.media in ("text/plain", "text/*", "*/*") and "as" not in clause.params:
                lines = self._status_lines() if page == "statusz" else self._flag_lines()
                head = _HEAD.format(component=_COMPONENT, page=page)
                return Response(200, (head + "".join(f"{line}\n" for line in lines)).encode(), _TEXT)
        raise not_acceptable("application/json, application/yaml, text/plain")

    def _status(self) -> Json:
        about = self._about
        return {
            "startTime": timestamp(about.started),
            "uptimeSeconds": self._uptime(),
            "goVersion": about.language,
            "binaryVersion": about.version,
            "emulationVersion": about.emulated,
            "paths": self._folders(),
        }

    def _status_lines(self) -> list[str]:
        about, up = self._about, self._uptime()
        return [
            "",
            f"Started: {about.started:%a %b %e %H:%M:%S UTC %Y}",
            f"Up: {up // 3600} hr {up // 60 % 60:02} min {up % 60:02} sec",
            f"Go version: {about.language}",
            f"Binary version: {about.version}",
            f"Emulation version: {about.emulated}",
            f"Paths: {' '.join(self._folders())}",
        ]

    def _flag_lines(self) -> list[str]:
        return [f"{name}={value}" for name, value in sorted(self._about.flags.items())]

    def _uptime(self) -> int:
        return max(0, int((now() - self._about.started).total_seconds()))

    def _folders(self) -> list[str]:
        names = {path.split("/")[1] for path in self._paths()}
        return sorted(f"/{name}" for name in names - _APIS - _OWN if name)


def _version(clause: Clause, kind: str) -> str:
    """Return the requested version of the kind; "" if the client requests another kind."""
    asked = clause.params
    wanted = asked.get("as") == kind and asked.get("g") == _GROUP and clause.media in (JSON, YAML)
    return asked["v"] if wanted and asked.get("v") in _VERSIONS else ""


def _deprecation(page: str, version: str) -> tuple[tuple[str, str], ...]:
    if version != "v1alpha1":
        return ()
    text = f"This version of the {page} endpoint is deprecated. Please use a newer version."
    return (("Warning", f'299 - "{text}"'),)
