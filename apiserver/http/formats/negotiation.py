"""Content negotiation: the media type, shape (Table, metadata only) and indentation of a response.

Tables have no protobuf: a client that requests one gets the next format that it accepts, or 406.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from apiserver.api.errors.status import StatusError
from apiserver.api.values.bounded_cache import remembered
from apiserver.request.messages import Request

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
#: The accepted media types in upstream's messages.
ACCEPTED: Final = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
STREAMED: Final = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
_PRODUCED: Final = frozenset({JSON, YAML, PROTOBUF, "*/*"})
_TEXT: Final = "text/plain"
_PATCHES: Final = frozenset(
    f"application/{kind}"
    for kind in ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")
)
_SHAPES: Final = {
    "Table": ("v1", "v1beta1"),
    "PartialObjectMetadata": ("v1", "v1beta1"),
    "PartialObjectMetadataList": ("v1", "v1beta1"),
}
_PEOPLE: Final = ("curl", "Wget", "Mozilla/5.0")
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})


class ResponseFormat(NamedTuple):
    """The format of a response.

    `shape` is "" for the object itself, `version` is that of meta.k8s.io for a shape; `pretty` JSON is indented.
    """

    media: str = JSON
    shape: str = ""
    version: str = "v1"
    pretty: bool = False


PLAIN: Final = ResponseFormat()
_CACHE: Final[dict[str, ResponseFormat | None]] = {
    "": PLAIN,
    "application/json": PLAIN,
    "*/*": PLAIN,
    "application/json, */*": PLAIN,
}
_CACHED: Final = 512
#: Maximal length of a cached header; longer ones are not repeated.
_SHORT: Final = 1024


class Clause(NamedTuple):
    media: str
    params: dict[str, str]


def not_acceptable(accepted: str = ACCEPTED) -> StatusError:
    return StatusError(406, "NotAcceptable", f"only the following media types are accepted: {accepted}")


def check_routed(verb: str, headers: Mapping[str, str], *, text: bool = False) -> None:
    """Check media types as upstream's router does: 415 for a bad patch type, 406 for an unknown Accept.

    The router reads both headers literally: media types without parameters, case-sensitive; the only wildcard is `*/*`.
    It also accepts plain `text`, but then the handler needs an object's media type all the same. Raise StatusError.
    """
    if verb == "patch" and not _is_listed(headers.get("content-type", ""), _PATCHES):
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    accept = headers.get("accept", "")
    if accept and accept != JSON and not _is_listed(accept, _PRODUCED | {_TEXT} if text else _PRODUCED):
        available = f"{ACCEPTED}, {STREAMED}" if verb in ("list", "watch") else ACCEPTED
        raise _not_produced(f"{_TEXT}, {available}" if text else available)
    if text and negotiate(accept).shape == "Table":
        raise not_acceptable()


def check_produced(accept: str, media: str) -> None:
    """Raise upstream's StatusError if a client does not accept a document's only media type."""
    if accept and not _is_listed(accept, frozenset({media, "*/*"})):
        raise _not_produced(media)


def _not_produced(available: str) -> StatusError:
    return StatusError(406, "NotAcceptable", f"406: Not Acceptable\n\nAvailable representations: {available}", {})


@remembered(_CACHED)
def _is_listed(header: str, wanted: frozenset[str]) -> bool:
    return any(part.partition(";")[0].strip(" ") in wanted for part in header.split(","))


def clauses(accept: str) -> list[Clause]:
    """Parse the alternatives of an Accept header, best first."""
    found = []
    for number, text in enumerate(accept.split(",")):
        media, *rest = (part.strip() for part in text.split(";"))
        params = {name.strip(): value.strip().strip('"') for name, _, value in (part.partition("=") for part in rest)}
        try:
            quality = float(params.pop("q", "1"))
        except ValueError:
            quality = 1.0
        if media:
            found.append((-quality, media.count("*"), number, Clause(media, params)))
    return [clause for *_, clause in sorted(found, key=lambda item: item[:3])]


def negotiate(accept: str) -> ResponseFormat:
    """Return the first available alternative. Raise 406."""
    try:
        chosen = _CACHE[accept]
    except KeyError:
        chosen = _negotiate_and_cache(accept)
    if chosen is None:
        raise not_acceptable()
    return chosen


def response_format(request: Request, *, tables: bool = True, bare: bool = False) -> ResponseFormat:
    """Return the format of the response to a request. Raise 406.

    `tables`: the resource has Tables. `bare`: objects are plain JSON without a protobuf message.
    """
    accept, agent = request.headers.get("accept", ""), request.headers.get("user-agent", "")
    chosen = _CACHE.get(accept) or negotiate(accept)
    if chosen is not PLAIN:
        if chosen.shape == "Table" and not tables:
            chosen = _first(accept, lambda other: other.shape != "Table")
        if bare and chosen.media == PROTOBUF and not chosen.shape:
            chosen = _first(accept, lambda other: other.media != PROTOBUF or bool(other.shape))
    if (agent.startswith(_PEOPLE) or "pretty" in request.query) and is_pretty(request, chosen) and not chosen.pretty:
        return chosen._replace(pretty=True)
    return chosen


def negotiate_stream(accept: str) -> ResponseFormat:
    """Return the format of a watch's events: no YAML. Raise 406."""
    chosen = negotiate(accept)
    if chosen.media == YAML:
        raise not_acceptable(STREAMED)
    return chosen


def negotiate_plain(accept: str) -> ResponseFormat:
    """Return the first alternative without a shape. Raise 406."""
    chosen = negotiate(accept)
    return _first(accept, lambda other: not other.shape) if chosen.shape else chosen


def _first(accept: str, suits: Callable[[ResponseFormat], bool] = lambda _: True) -> ResponseFormat:
    for clause in clauses(accept):
        chosen = _format_of(clause)
        if chosen is not None and suits(chosen):
            return chosen
    raise not_acceptable()


def _negotiate_and_cache(accept: str) -> ResponseFormat | None:
    chosen: ResponseFormat | None
    try:
        chosen = _first(accept)
    except StatusError:
        chosen = None
    if len(_CACHE) < _CACHED and len(accept) <= _SHORT:
        _CACHE[accept] = chosen
    return chosen


def error_format(accept: str) -> ResponseFormat:
    """Return the format of errors: no shape, and indented JSON as upstream's fallback."""
    try:
        return negotiate_plain(accept)
    except StatusError:
        return ResponseFormat(pretty=True)


def _format_of(clause: Clause) -> ResponseFormat | None:
    media = {"*/*": JSON, "application/*": JSON}.get(clause.media, clause.media)
    params = clause.params
    if media not in (JSON, YAML, PROTOBUF) or params.get("stream", "watch") not in ("watch", "") or params.get("sv"):
        return None
    pretty = params.get("pretty") == "1"
    if not params.keys() & {"as", "g", "v"}:
        return ResponseFormat(media, pretty=pretty)
    shape, version = params.get("as", ""), params.get("v", "")
    if (
        params.get("g") != "meta.k8s.io"
        or version not in _SHAPES.get(shape, ())
        or (shape == "Table" and media == PROTOBUF)
    ):
        return None
    return ResponseFormat(media, shape, version, pretty)


def is_pretty(request: Request, chosen: ResponseFormat) -> bool:
    """Return whether JSON is indented: by the Accept header or `?pretty`; by default for browsers, curl and wget."""
    if chosen.pretty:
        return True
    if request.query and "pretty" in request.query:
        given = request.params.get("pretty", ("",))[0]
        if given:
            return given in _TRUE
    return request.headers.get("user-agent", "").startswith(_PEOPLE)
