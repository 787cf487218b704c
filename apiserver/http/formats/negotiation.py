"""What form an answer takes: media type, Table or metadata only, pretty or not.

Tables have no protobuf: a client that asks for one gets the next form that it accepts, or 406.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from apiserver.api.schema import Struct
from apiserver.api.status import StatusError

if TYPE_CHECKING:
    import yaml

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
#: What upstream says that it accepts; messages are wire facts.
ACCEPTED: Final = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_STREAMED: Final = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
_PRODUCED: Final = frozenset({JSON, YAML, PROTOBUF, "*/*"})
_PATCHES: Final = frozenset(
    f"application/{kind}"
    for kind in ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")
)
_SHAPES: Final = {
    "Table": ("v1", "v1beta1"),
    "PartialObjectMetadata": ("v1", "v1beta1"),
    "PartialObjectMetadataList": ("v1", "v1beta1"),
}


class Form(NamedTuple):
    """The form of an answer. `shape` is "" for the object itself, `version` that of meta.k8s.io in which a shape is
    wanted.
    """

    media: str = JSON
    shape: str = ""
    version: str = "v1"
    pretty: bool = False


PLAIN: Final = Form()
_CACHE: Final[dict[str, Form | None]] = {
    "": PLAIN,
    "application/json": PLAIN,
    "*/*": PLAIN,
    "application/json, */*": PLAIN,
}
_CACHED: Final = 512


class Clause(NamedTuple):
    media: str
    params: dict[str, str]


def not_acceptable(accepted: str = ACCEPTED) -> StatusError:
    return StatusError(406, "NotAcceptable", f"only the following media types are accepted: {accepted}")


def check_routed(verb: str, headers: Mapping[str, str], *, tables: bool = True) -> None:
    """What upstream's router says of media types before any handler looks: a body that no patch has (415), an answer
    that nobody makes (406).

    It reads both headers literally: media types without their parameters, whose case counts; of wildcards it knows
    `*/*`. Then what is never stored makes no `tables`. Raises StatusError.
    """
    if verb == "patch" and not _is_listed(headers.get("content-type", ""), _PATCHES):
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    accept = headers.get("accept", "")
    if accept and accept != JSON and not _is_listed(accept, _PRODUCED):
        available = f"{ACCEPTED}, {_STREAMED}" if verb in ("list", "watch") else ACCEPTED
        raise StatusError(406, "NotAcceptable", f"406: Not Acceptable\n\nAvailable representations: {available}", {})
    if not tables and "as=Table" in accept and negotiate(accept).shape == "Table":
        raise not_acceptable()


@lru_cache(_CACHED)
def _is_listed(header: str, wanted: frozenset[str]) -> bool:
    return any(part.partition(";")[0].strip(" ") in wanted for part in header.split(","))


def clauses(accept: str) -> list[Clause]:
    """The alternatives of an Accept header, best first."""
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


def negotiate(accept: str) -> Form:
    """The first alternative that can be given. Raises 406."""
    form = _CACHE.get(accept, PLAIN) if accept in _CACHE else _remember(accept)
    if form is None:
        raise not_acceptable()
    return form


def negotiate_stream(accept: str) -> Form:
    """The form of a watch's events: no YAML. Raises 406."""
    form = negotiate(accept)
    if form.media == YAML:
        raise not_acceptable(_STREAMED)
    return form


def negotiate_plain(accept: str) -> Form:
    """The first alternative that asks for no shape. Raises 406."""
    return _negotiate_without(accept, lambda form: bool(form.shape))


def negotiate_untabled(accept: str) -> Form:
    """The first alternative that asks for no Table, where there is nothing that makes one. Raises 406."""
    return _negotiate_without(accept, lambda form: form.shape == "Table")


def _negotiate_without(accept: str, refused: Callable[[Form], bool]) -> Form:
    form: Form | None = negotiate(accept)
    if form is not None and refused(form):
        form = next(
            (found for clause in clauses(accept) if (found := _form(clause)) is not None and not refused(found)), None
        )
    if form is None:
        raise not_acceptable()
    return form


def _remember(accept: str) -> Form | None:
    form = next((found for clause in clauses(accept) if (found := _form(clause)) is not None), None)
    if len(_CACHE) < _CACHED:
        _CACHE[accept] = form
    return form


def form_of_error(accept: str) -> Form:
    """Errors take no shape; where nothing that is asked for can be given they come indented, as upstream's last resort
    does.
    """
    try:
        return negotiate_plain(accept)
    except StatusError:
        return Form(pretty=True)


def _form(clause: Clause) -> Form | None:
    media = {"*/*": JSON, "application/*": JSON}.get(clause.media, clause.media)
    params = clause.params
    if media not in (JSON, YAML, PROTOBUF) or params.get("stream", "watch") not in ("watch", "") or params.get("sv"):
        return None
    pretty = params.get("pretty") == "1"
    if not params.keys() & {"as", "g", "v"}:
        return Form(media, pretty=pretty)
    shape, version = params.get("as", ""), params.get("v", "")
    if (
        params.get("g") != "meta.k8s.io"
        or version not in _SHAPES.get(shape, ())
        or (shape == "Table" and media == PROTOBUF)
    ):
        return None
    return Form(media, shape, version, pretty)


def encode(form_media: str, obj: Any, *, pretty: bool = False, schema: Struct | None = None) -> bytes:
    """An object's bytes in a media type: JSON as a line, or indented and without an end of line. Protobuf needs the
    schema of what is neither a status nor discovery."""
    if form_media == PROTOBUF:
        from apiserver.http.formats.protobuf import document

        made = document(obj, schema)
        if made is None:
            raise not_acceptable("application/json, application/yaml")
        return made
    if form_media == YAML:
        return to_yaml(obj)
    return (
        orjson.dumps(obj, option=orjson.OPT_INDENT_2) if pretty else orjson.dumps(obj, option=orjson.OPT_APPEND_NEWLINE)
    )


def to_yaml(obj: Any) -> bytes:
    """YAML with sorted keys, as upstream's encoder writes it."""
    import yaml

    text: str = yaml.dump(obj, Dumper=_dumper(), default_flow_style=False, sort_keys=True, allow_unicode=True)
    # After an open-ended block the library ends the document; there is only one document, and nothing to end.
    return text.removesuffix("...\n").encode()


@lru_cache(maxsize=1)
def _dumper() -> type[yaml.Dumper]:
    """Strings of several lines as blocks, strings that look like something else in double quotes; all others as they
    are.
    """
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: object) -> bool:
            """A value that occurs twice is written twice."""
            return True

    def text(dumper: yaml.Dumper, value: str) -> yaml.ScalarNode:
        style = None
        if "\n" in value:
            style = "|"
        elif not value or dumper.resolve(yaml.ScalarNode, value, (True, False)) != "tag:yaml.org,2002:str":  # type: ignore[no-untyped-call]
            style = '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return Dumper


def wants_pretty(params: dict[str, list[str]], user_agent: str) -> bool:
    """`?pretty` says so; without it browsers, curl and wget are people."""
    given = params.get("pretty", ("",))[0]
    if given:
        return given in ("1", "t", "T", "TRUE", "true", "True")
    return user_agent.startswith(("curl", "Wget", "Mozilla/5.0"))
