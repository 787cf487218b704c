"""`/openapi.json`, its HTML form `/docs`, and the list of paths at `/-/`.

The page is one file without scripts and needs no internet.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from html import escape
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.responses import HTMLResponse, JSONResponse

from apiserver.api.objects import Json

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24}"
    "h2{border-bottom:1px solid #d0d7de;margin-top:2.5rem}code{background:#f3f4f6;padding:.1em .3em}"
    "table{border-collapse:collapse;width:100%}td,th{border:1px solid #d0d7de;padding:.3rem .6rem;text-align:left;"
    "vertical-align:top}th{background:#f6f8fa}"
)
#: The page loads no resources and runs no scripts.
_POLICY: Final = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}


def create(app: FastAPI) -> APIRouter:
    """Build the routes that describe all others of `app`.

    The first request waits for the document. A thread builds it, in about 100 ms.
    """
    router = APIRouter(include_in_schema=False)

    async def document() -> Json:
        return await asyncio.to_thread(app.openapi)

    @router.get("/openapi.json")
    async def openapi() -> JSONResponse:
        return JSONResponse(await document())

    @router.get("/-/")
    async def paths() -> JSONResponse:
        return JSONResponse({"paths": ["/docs", "/openapi.json", *sorted((await document())["paths"])]})

    @router.get("/docs")
    async def docs() -> HTMLResponse:
        return HTMLResponse(page(await document()), headers=_POLICY)

    return router


def page(document: Json) -> str:
    """Render an OpenAPI document as HTML."""
    info = document["info"]
    title = escape(f"{info['title']} {info['version']}")
    body = "".join(_operations(document)) + "".join(_models(document))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1><p>{escape(info.get('description', ''))}</p>{body}</html>"
    )


def _operations(document: Json) -> Iterator[str]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"<h2><code>{method.upper()} {escape(path)}</code> {escape(operation.get('summary', ''))}</h2>"
            yield f"<p>{escape(operation.get('description', ''))}</p>"
            parameters = operation.get("parameters") or ()
            if parameters:
                rows = (
                    (each["name"], each["in"], _type(each.get("schema", {})), each.get("description", ""))
                    for each in parameters
                )
                yield _table(("parameter", "in", "type", "meaning"), rows)
            content = (operation.get("requestBody") or {}).get("content", {})
            for media, described in content.items():
                yield f"<p>Body: {escape(media)}, {_type(described.get('schema', {}))}</p>"
            for code, answer in (operation.get("responses") or {}).items():
                shown = answer.get("content", {}).get("application/json", {}).get("schema", {})
                yield f"<p>{escape(code)}: {escape(answer.get('description', ''))} {_type(shown)}</p>"


def _models(document: Json) -> Iterator[str]:
    for name, schema in (document.get("components") or {}).get("schemas", {}).items():
        yield f'<h2 id="{escape(name)}">{escape(name)}</h2><p>{escape(schema.get("description", ""))}</p>'
        rows = (
            (field, _type(described), described.get("default", ""), described.get("description", ""))
            for field, described in schema.get("properties", {}).items()
        )
        yield _table(("field", "type", "default", "meaning"), rows)


def _table(heads: tuple[str, ...], rows: Any) -> str:
    lines = "".join("<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>{lines}</table>" if lines else ""


class _Html(str):
    """A text that is already HTML."""

    __slots__ = ()


def _cell(value: Any) -> str:
    return value if isinstance(value, _Html) else escape(value if isinstance(value, str) else json.dumps(value))


def _type(schema: Json) -> _Html:
    """Render the type of a schema; a model is a link."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return _Html(f'<a href="#{name}">{name}</a>')
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return _Html(" or ".join(map(_type, schema[choice])))
    if schema.get("type") == "array":
        return _Html(f"list of {_type(schema.get('items', {}))}")
    if "enum" in schema:
        return _Html(", ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"]))
    return _Html(escape(str(schema.get("type", ""))))
