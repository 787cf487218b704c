"""A hook of MkDocs: links of pages to files outside of docs/ lead to the repository."""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"\]\((\.\./[^)#]*)(#[^)]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Return the page with such links replaced."""

    def replace(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), link[1]))
        if not target.startswith("../"):
            return link[0]
        return f"]({config.repo_url}/tree/main/{target.removeprefix('../')}{link[2] or ''})"

    return _LINK.sub(replace, markdown)
