"""The cluster that a copy is read from. Only GET requests of lists and of discovery are sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from kubedra.client.responses import ApiError
from kubedra.cluster_copy.kinds import Kind
from kubedra.runtime.objects import Json

__all__ = ["USER_AGENT", "LostError", "Reader", "Source"]

USER_AGENT: Final = "kubedra-import"
#: Objects per page of a list, as kubectl requests them.
PAGE: Final = 500
#: Seconds without data after which a request fails. A page of large objects takes long on a busy server.
TIMEOUT: Final = 60.0
_GONE: Final = 410


class LostError(ConnectionError):
    """The connection to the source failed; the message is one line."""


class Reader(Protocol):
    """The part of a client that reads."""

    @property
    def url(self) -> str: ...

    def request(self, method: str, path: str, *, params: dict[str, str] | None = None) -> Json: ...


class Source:
    """Reads the kinds and the objects of a cluster.

    `counted` is called with the number of objects of every page.
    """

    def __init__(self, client: Reader, *, page: int = PAGE, counted: Callable[[int], None] = lambda _: None) -> None:
        self._client, self._page, self._counted = client, page, counted

    @property
    def url(self) -> str:
        return self._client.url

    def get(self, path: str, params: dict[str, str] | None = None) -> Json:
        """Return the response for a path. Raise ApiError for a refusal, LostError for a failed connection."""
        import httpx

        try:
            return self._client.request("GET", path, params=params)
        except ApiError:
            raise
        except (httpx.HTTPError, OSError) as error:
            text = " ".join(str(error).split()) or type(error).__name__
            raise LostError(f"{self.url}: the connection was lost while reading {path}: {text}") from error

    def list(self, kind: Kind, namespace: str = "") -> list[Json]:
        """Return the objects of a kind, read in pages, each with its apiVersion and kind.

        If the token of the next page expires, all objects are read again in one response.
        """
        path = kind.path(namespace)
        params = {"limit": str(self._page)}
        objects: list[Json] = []
        while True:
            try:
                answer = self.get(path, params)
            except ApiError as error:
                if error.code != _GONE or "continue" not in params:
                    raise
                # The pages so far are of a state that the server no longer has.
                self._counted(-len(objects))
                objects, params = [], {}
                continue
            items = answer.get("items") or []
            self._counted(len(items))
            objects += ({"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in items)
            token = (answer.get("metadata") or {}).get("continue")
            if not token:
                return objects
            params = {"limit": str(self._page), "continue": token}
