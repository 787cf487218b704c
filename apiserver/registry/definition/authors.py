"""The author of a row of the log: verb, subresource, user, user agent and field manager, as a text in the log.

The log stores each text once (docs/adr/0041-history.md), so the texts of a process are cached by their parts.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Final, NamedTuple

__all__ = ["EXPIRED", "RESET", "RESTORE", "UNKNOWN", "Author", "encode_author", "parse_author"]

#: Maximum characters of a user or an agent. Clients choose their agents.
_LONGEST: Final = 200


class Author(NamedTuple):
    """The request that wrote a row. All fields are "" for a row of an older release."""

    verb: str
    subresource: str
    user: str
    agent: str
    manager: str


UNKNOWN: Final = Author("", "", "", "", "")


@lru_cache(4096)
def encode_author(verb: str, subresource: str, user: str, agent: str, manager: str) -> str:
    """Return the text of an author. `verb` is one of the API, or "apply", "expire", "reset" and "restore"."""
    return json.dumps([verb, subresource, user[:_LONGEST], agent[:_LONGEST], manager], separators=(",", ":"))


def parse_author(text: str) -> Author:
    """Return the author of a text, UNKNOWN for "" and for a text of another form."""
    try:
        return Author(*map(str, json.loads(text)))
    except (ValueError, TypeError):
        return UNKNOWN


#: The end of an Event's time, `/-/reset`, and the restore of a snapshot.
EXPIRED: Final = encode_author("expire", "", "", "kube-apiserver", "")
RESET: Final = encode_author("reset", "", "", "kube-apiserver", "")
RESTORE: Final = encode_author("restore", "", "", "kube-apiserver", "")
