"""Objects as bytes, in each media type."""

from __future__ import annotations

import re
from functools import lru_cache
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

import orjson

from apiserver.api.nesting import Folded, dumps
from apiserver.api.schema import Struct
from apiserver.http.formats.negotiation import PROTOBUF, YAML, not_acceptable

if TYPE_CHECKING:
    import yaml


def encode(media: str, obj: Any, *, pretty: bool = False, schema: Struct | None = None) -> bytes:
    """An object's bytes in a media type: JSON as a line, or indented and without an end of line. Protobuf needs the
    schema of what is neither a status nor discovery."""
    if media == PROTOBUF:
        from apiserver.http.formats.protobuf import document

        made = document(obj, schema)
        if made is None:
            raise not_acceptable("application/json, application/yaml")
        return made
    if media == YAML:
        return to_yaml(obj)
    return dumps(obj, orjson.OPT_INDENT_2 if pretty else orjson.OPT_APPEND_NEWLINE)


def to_yaml(obj: Any) -> bytes:
    """YAML with sorted keys, as upstream's encoder writes it."""
    import yaml

    text: str = yaml.dump(obj, Dumper=_dumper(), default_flow_style=False, sort_keys=True, allow_unicode=True)
    # After an open-ended block the library ends the document; there is only one document, and nothing to end.
    made = text.removesuffix("...\n").encode()
    if _FOLDED not in made:
        return made
    return re.sub(rb"%b([0-9a-f]+)" % _FOLDED, lambda found: bytes.fromhex(found[1].decode()), made)


#: How deep parts begin in YAML until their JSON, which is YAML as well, takes their place.
_FOLDED: Final = b"folded-%b-" % token_hex(8).encode()


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

    def folded(dumper: yaml.Dumper, value: Folded) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", _FOLDED.decode() + value.text.hex())

    Dumper.add_representer(str, text)
    Dumper.add_representer(Folded, folded)
    return Dumper
