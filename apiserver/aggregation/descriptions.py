"""Read the OpenAPI documents of aggregated servers.

Facts: kube-aggregator, pkg/controllers/openapi and openapiv3.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

import orjson

from apiserver.aggregation.client import RemoteClient
from apiserver.aggregation.remotes import Remote

__all__ = ["NOTHING", "Description", "read_description"]

_EMPTY: Final = {
    "swagger": "2.0", "info": {"title": "", "version": ""}, "paths": {}, "definitions": {}, "security": [],
    "securityDefinitions": {},
}  # fmt: skip
_LOG: Final = logging.getLogger(__name__)


class Description(NamedTuple):
    """OpenAPI documents of an aggregated server.

    `address` is the URL of the version 3 document, "" if there is none. `swagger` is the part of the version 2 document
    about the group version, b"" if there is none, and `etag` the ETag of that document.
    """

    address: str = ""
    swagger: bytes = b""
    etag: str = ""


NOTHING: Final = Description()


async def read_description(
    client: RemoteClient, remote: Remote, place: tuple[str, int], known: Description
) -> Description:
    """Return a server's current description; parts it does not return stay as known."""
    try:
        known = known._replace(address=await _address(client, remote, place))
    except Exception as error:  # noqa: BLE001 - the known description stays
        _LOG.debug("API service %s: OpenAPI 3: %s", remote.name, error)
    try:
        answer = await client.get(remote, place, "/openapi/v2", "application/json", etag=known.etag)
        if answer.status == 200:
            known = known._replace(swagger=_own_part(answer.body, remote), etag=answer.etag)
    except Exception as error:  # noqa: BLE001 - likewise
        _LOG.debug("API service %s: OpenAPI 2: %s", remote.name, error)
    return known


def _own_part(body: bytes, remote: Remote) -> bytes:
    """Return the part of a version 2 document about the group version. Raise if it cannot be merged."""
    from apiserver.openapi.gnostic import encode_document
    from apiserver.openapi.merging import merge_documents, select_paths

    part = select_paths(orjson.loads(body), f"{remote.path}/")
    encode_document(merge_documents(_EMPTY, [part]))
    return orjson.dumps(part)


async def _address(client: RemoteClient, remote: Remote, place: tuple[str, int]) -> str:
    answer = await client.get(remote, place, "/openapi/v3", "application/json")
    paths = orjson.loads(answer.body).get("paths") or {} if answer.status == 200 else {}
    return (paths.get(remote.path.strip("/")) or {}).get("serverRelativeURL", "") or ""
