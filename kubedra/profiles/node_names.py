"""Node names inside captured texts."""

from __future__ import annotations

import re


def replace_node_name(text: str, old: str, new: str) -> str:
    """Replace a node's name where it is a word: without a letter or digit directly before or after it.

    The text `n1-gpu-0 in n1.example.com` has the node `n1` twice; `gen10` and `n12` do not have it.
    """
    return re.sub(rf"(?<![^\W_]){re.escape(old)}(?![^\W_])", lambda _: new, text)
