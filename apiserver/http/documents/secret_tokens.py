"""The signing of tokens of Secrets for serviceaccount-token-controller, which has no key.

Only users with all permissions have access to this path: no role of the policy names it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import orjson

from apiserver.api.errors.status import bad_request, method_not_allowed
from apiserver.request.messages import Request, Response

#: Without the first slash.
PATH: Final = "openid/v1/secret-tokens"
#: Returns the token of a Secret, by namespace and name. Raises StatusError.
Sign = Callable[[str, str], Awaitable[str]]


async def answer_secret_token(request: Request, sign: Sign) -> Response:
    """Return the signed token of the Secret that the body names. Raise StatusError."""
    if request.method != "POST":
        raise method_not_allowed()
    try:
        body = orjson.loads(request.body)
        namespace, name = str(body["namespace"]), str(body["secret"])
    except (ValueError, KeyError, TypeError):
        raise bad_request('the body must be {"namespace": NAMESPACE, "secret": NAME}') from None
    return Response(200, orjson.dumps({"token": await sign(namespace, name)}))
