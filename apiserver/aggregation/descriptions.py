"""What servers behind this one say of themselves in OpenAPI.

Facts: kube-aggregator, pkg/controllers/openapi and openapiv3.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

import orjson

from apiserver.aggregation.client import RemoteClient
from apiserver.aggregation.remotes import Remote

__all__ = ["NOTHING", "Description", "described"]

_EMPTY: Final = {
    "swagger": "2.0", "info": {"title": "", "version": ""}, "paths": {}, "definitions": {}, "security": [],
    "securityDefinitions": {},
}  # fmt: skip
_LOG: Final = logging.getLogger(__name__)


class Description(NamedTuple):
    """`address` of the document of version 3, "" where there is none; `swagger` what the document of version 2 says of
    the group version, b"" where there is none; `etag` what that document was when it was read.
    """

    address: str = ""
    swagger: bytes = b""
    etag: str = ""


NOTHING: Final = Description()


async def described(client: RemoteClient, remote: Remote, place: tuple[str, int], known: Description) -> Description:
    """What a server says now; where it does not answer, what it said before."""
    try:
        known = known._replace(address=await _address(client, remote, place))
    except Exception as error:  # noqa: BLE001 - it was there a moment ago; what it said then stays
        _LOG.debug("API service %s: OpenAPI 3: %s", remote.name, error)
    try:
        answer = await client.get(remote, place, "/openapi/v2", "application/json", etag=known.etag)
        if answer.status == 200:
            known = known._replace(swagger=_own_part(answer.body, remote), etag=answer.etag)
    except Exception as error:  # noqa: BLE001 - likewise
        _LOG.debug("API service %s: OpenAPI 2: %s", remote.name, error)
    return known


def _own_part(body: bytes, remote: Remote) -> bytes:
    """What a document of version 2 says of the group version. Raises whatever a wrong one leads to: none is merged."""
    from apiserver.openapi.gnostic import encode_document
    from apiserver.openapi.merging import below, merged

    part = below(orjson.loads(body), f"{remote.path}/")
    encode_document(merged(_EMPTY, [part]))
    return orjson.dumps(part)


async def _address(client: RemoteClient, remote: Remote, place: tuple[str, int]) -> str:
    answer = await client.get(remote, place, "/openapi/v3", "application/json")
    paths = orjson.loads(answer.body).get("paths") or {} if answer.status == 200 else {}
    return (paths.get(remote.path.strip("/")) or {}).get("serverRelativeURL", "") or ""
