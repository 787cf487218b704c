"""The encoding of objects in each media type."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

import orjson

from apiserver.api.schema.language import Struct
from apiserver.api.values.go_json import escape_html
from apiserver.http.formats.negotiation import PROTOBUF, YAML, not_acceptable

if TYPE_CHECKING:
    import yaml


def encode(media: str, obj: Any, *, pretty: bool = False, schema: Struct | None = None) -> bytes:
    """Encode an object in a media type: JSON as a line, or indented and without an end of line.

    Protobuf needs the schema, except for a status and discovery.
    """
    if media == PROTOBUF:
        from apiserver.http.formats.protobuf import document

        made = document(obj, schema)
        if made is None:
            raise not_acceptable("application/json, application/yaml")
        return made
    if media == YAML:
        return to_yaml(obj)
    return escape_html(orjson.dumps(obj, option=orjson.OPT_INDENT_2 if pretty else orjson.OPT_APPEND_NEWLINE))


def to_yaml(obj: Any) -> bytes:
    """Encode YAML with sorted keys, as upstream's encoder does."""
    import yaml

    text: str = yaml.dump(obj, Dumper=_dumper(), default_flow_style=False, sort_keys=True, allow_unicode=True)
    # After an open-ended block the library writes a document end. There is only one document, so it is removed.
    return text.removesuffix("...\n").encode()


@lru_cache(maxsize=1)
def _dumper() -> type[yaml.Dumper]:
    """Return a YAML dumper with Go's style.

    Strings of several lines are blocks, ambiguous strings are in double quotes, all others are plain; numbers as Go
    writes them.
    """
    import yaml

    from apiserver.api.codec.yaml_bodies import is_text
    from apiserver.api.patch.goformat import go_format

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        # The style of a string is chosen here: the library treats every unquoted scalar as text.
        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

        def ignore_aliases(self, data: object) -> bool:
            """Write a value that occurs twice twice."""
            return True

    def plain(write: Callable[[Any], str]) -> Callable[[yaml.Dumper, Any], yaml.ScalarNode]:
        return lambda dumper, value: dumper.represent_scalar(_TEXT, write(value))

    def text(dumper: yaml.Dumper, value: str) -> yaml.ScalarNode:
        style = "|" if "\n" in value else None if is_text(value) else '"'
        return dumper.represent_scalar(_TEXT, value, style=style)

    Dumper.add_representer(str, text)
    Dumper.add_representer(bool, plain(lambda value: "true" if value else "false"))
    Dumper.add_representer(int, plain(str))
    Dumper.add_representer(float, plain(go_format))
    Dumper.add_representer(type(None), plain(lambda _: "null"))
    return Dumper


_TEXT: Final = "tag:yaml.org,2002:str"
