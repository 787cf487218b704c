"""Names of nodes inside of captured texts."""

from __future__ import annotations

import re


def replace_node_name(text: str, old: str, new: str) -> str:
    """Replace a node's name where it is a word: no letter and no digit directly before or after it.

    Of node `n1` the text `n1-gpu-0 in n1.example.com` has the name twice, `gen10` and `n12` do not have it.
    """
    return re.sub(rf"(?<![^\W_]){re.escape(old)}(?![^\W_])", lambda _: new, text)
