"""Reports of coverage: lines for the terminal, a page in HTML, JSON."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterator

from kubedra.coverage.data import CATEGORIES, OPEN, Coverage, Difference

__all__ = ["html_page", "terminal_lines"]

#: Maximum number of missed behaviours in a line of the terminal, and of differences.
_SHOWN = 8
_STYLE = """\
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin:1.5rem 0 .3rem}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.15rem .6rem;border-bottom:1px solid #ddd}
td.n,th.n{text-align:right;width:6rem}.miss{background:#fde8e8}.bar{height:.5rem;background:#f3c6c6}
.bar div{height:100%;background:#4a9d5b}code{font:13px ui-monospace,monospace}input{padding:.3rem;width:20rem}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#1b1d20}td,th{border-color:#444}.miss{background:#4a2626}}
"""
_SCRIPT = """\
const find=document.getElementById('find'),only=document.getElementById('only');
function filter(){for(const row of document.querySelectorAll('tr[data-name]'))
row.hidden=!row.dataset.name.includes(find.value.toLowerCase())||(only.checked&&!row.classList.contains('miss'));}
find.oninput=only.onchange=filter;
"""


def terminal_lines(coverage: Coverage, difference: Difference | None, *, missing: bool = False) -> Iterator[str]:
    """Yield the report: each category with its share and the behaviours that were never reached.

    With `missing` all of them are listed, else the first of each category.
    """
    width = max(map(len, CATEGORIES.values()))
    for category, title in CATEGORIES.items():
        reached, missed = coverage.reached(category), coverage.missed(category)
        if category in OPEN or not (reached or missed):
            continue
        share = coverage.percent([category])
        yield f"{title:{width}}  {len(reached):4} of {len(reached) + len(missed):4}  {share:4.0f}%"
        if missing:
            yield from (f"    never: {name}" for name in missed)
        elif missed:
            more = [f"… {len(missed) - _SHOWN} more"] if len(missed) > _SHOWN else []
            text = f"never: {'; '.join([*missed[:_SHOWN], *more])}"
            yield from textwrap.wrap(
                text, 110, initial_indent="    ", subsequent_indent="      ", break_on_hyphens=False
            )
    yield f"{'mean':{width}}  {'':12}  {coverage.percent():4.0f}%"
    if difference is not None:
        yield from _difference_lines(difference)


def _difference_lines(difference: Difference) -> Iterator[str]:
    if not difference.gained and not difference.lost:
        yield "as in the run before"
    for words, found in (("new", difference.gained), ("no longer reached", difference.lost)):
        for category, name in found[:_SHOWN]:
            yield f"{words}: {CATEGORIES[category]}: {name}"
        if len(found) > _SHOWN:
            yield f"{words}: {len(found) - _SHOWN} more"


def html_page(coverage: Coverage, difference: Difference | None) -> str:
    """Return a page that needs no other files."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>kubedra coverage</title><style>{_STYLE}</style>",
        f"<h1>kubedra coverage: {coverage.percent():.0f}%</h1>",
        "<p>Behaviours of the control plane that the suite has reached.</p>",
        "<p><input id=find placeholder='filter'>",
        "<label><input id=only type=checkbox style='width:auto'> only missing</label></p>",
    ]
    if difference is not None:
        lines = "".join(f"<li><code>{html.escape(line)}</code>" for line in _difference_lines(difference))
        parts.append(f"<h2>Compared with the run before</h2><ul>{lines}</ul>")
    for category, title in CATEGORIES.items():
        parts += _section(coverage, category, title)
    return "".join([*parts, f"<script>{_SCRIPT}</script></html>\n"])


def _section(coverage: Coverage, category: str, title: str) -> Iterator[str]:
    hits = coverage.hits.get(category)
    if not hits:
        return
    reached = len(coverage.reached(category))
    share = "" if category in OPEN else f": {reached} of {len(hits)}"
    yield f"<h2 id={category}>{html.escape(title)}{share}</h2>"
    if category not in OPEN:
        yield f"<div class=bar><div style='width:{coverage.percent([category]):.1f}%'></div></div>"
    yield "<table><tr><th>behaviour<th class=n>hits</tr>"
    for name, count in sorted(hits.items(), key=lambda item: (item[1] > 0, item[0])):
        miss = "" if count else " class=miss"
        text = html.escape(name, quote=True)
        yield f'<tr{miss} data-name="{text.lower()}"><td><code>{text}</code><td class=n>{count}</tr>'
    yield "</table>"
