"""Manifests: YAML or JSON text, files, directories or objects, read as a list of objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kubedra.runtime.objects import Json

#: pytest hides this module's frames in the reports of failing tests.
__tracebackhide__ = True
Manifest = str | Path | Json | Iterable[Json]


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a manifest. `place` is its position ("pods.yaml, document 2"), empty for a single object."""

    obj: Json
    place: str

    def __str__(self) -> str:
        meta = self.obj.get("metadata") or {}
        words = " ".join(str(word) for word in (self.obj.get("kind"), meta.get("name")) if word)
        return f"{self.place} ({words})" if self.place and words else self.place or words or "manifest"


def load(manifest: Manifest) -> list[Json]:
    """Return the objects of a manifest; see `documents`."""
    return [document.obj for document in documents(manifest)]


def documents(manifest: Manifest) -> list[Document]:
    """Return the objects of a manifest with their places. `List`s are flattened, empty documents skipped.

    Raises ValueError for unreadable input and for an object without apiVersion or kind.
    """
    return [_validate(document) for document in _read_documents(manifest)]


def _validate(document: Document) -> Document:
    missing = [name for name in ("apiVersion", "kind") if not document.obj.get(name)]
    if missing:
        raise ValueError(f"{document}: not a Kubernetes object: {' and '.join(missing)} missing")
    return document


def _read_documents(manifest: Manifest) -> Iterator[Document]:
    if isinstance(manifest, dict):
        yield from _flatten(manifest, "")
    elif isinstance(manifest, Path) or (
        isinstance(manifest, str) and "\n" not in manifest and not manifest.lstrip().startswith("{")
    ):
        yield from _from_path(Path(manifest))
    elif isinstance(manifest, str):
        yield from _parse(manifest, "manifest")
    else:
        for number, obj in enumerate(manifest, 1):
            yield from _flatten(obj, f"object {number}")


def _from_path(path: Path) -> Iterator[Document]:
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix in {".yaml", ".yml", ".json"})
    elif path.is_file():
        files = [path]
    else:
        raise ValueError(f"{path}: no such file or directory")
    for file in files:
        yield from _parse(file.read_text(), str(file))


def _parse(text: str, origin: str) -> Iterator[Document]:
    import yaml

    try:
        parsed = list(yaml.load_all(text, Loader=yaml_loader()))
    except yaml.YAMLError as error:
        raise ValueError(f"{origin}: not YAML: {' '.join(str(error).split())}") from error
    for number, obj in enumerate((obj for obj in parsed if obj is not None), 1):
        yield from _flatten(obj, f"{origin}, document {number}")


@cache
def yaml_loader() -> Any:
    """Return a safe YAML loader that reads times as text, as every Kubernetes tool does."""
    import yaml

    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    resolvers = {
        first: [r for r in rules if r[0] != "tag:yaml.org,2002:timestamp"]
        for first, rules in base.yaml_implicit_resolvers.items()
    }
    return type("ManifestLoader", (base,), {"yaml_implicit_resolvers": resolvers})


def _flatten(obj: Any, place: str) -> Iterator[Document]:
    if not isinstance(obj, dict):
        raise ValueError(f"{place}: not a Kubernetes object but {type(obj).__name__}")
    if str(obj.get("kind", "")).endswith("List") and isinstance(obj.get("items"), list):
        for number, item in enumerate(obj["items"], 1):
            # Items of a list response omit the apiVersion and kind, which the list has once.
            inherited = (
                {"apiVersion": obj.get("apiVersion"), "kind": obj["kind"][: -len("List")]}
                if obj["kind"] != "List"
                else {}
            )
            yield from _flatten({**inherited, **item}, f"{place}, item {number}" if place else f"item {number}")
    else:
        yield Document(obj, place)
