"""Manifests: YAML or JSON text, files, directories or objects, as a list of objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Manifest = str | Path | Json | Iterable[Json]


def load(manifest: Manifest) -> list[Json]:
    """Every object of a manifest; `List`s are taken apart, empty documents skipped. ValueError names what cannot be
    read.
    """
    return list(_objects(manifest))


def _objects(manifest: Manifest) -> Iterator[Json]:
    if isinstance(manifest, dict):
        yield from _flatten(manifest)
    elif isinstance(manifest, Path) or (
        isinstance(manifest, str) and "\n" not in manifest and not manifest.lstrip().startswith("{")
    ):
        yield from _from_path(Path(manifest))
    elif isinstance(manifest, str):
        yield from _parse(manifest, "manifest")
    else:
        for obj in manifest:
            yield from _flatten(obj)


def _from_path(path: Path) -> Iterator[Json]:
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix in {".yaml", ".yml", ".json"})
    elif path.is_file():
        files = [path]
    else:
        raise ValueError(f"{path}: no such file or directory")
    for file in files:
        yield from _parse(file.read_text(), str(file))


def _parse(text: str, origin: str) -> Iterator[Json]:
    import yaml

    try:
        documents = list(yaml.load_all(text, Loader=_loader()))
    except yaml.YAMLError as error:
        raise ValueError(f"{origin}: not YAML: {' '.join(str(error).split())}") from error
    for document in documents:
        if document is None:
            continue
        if not isinstance(document, dict) or "kind" not in document:
            raise ValueError(f"{origin}: a document is no Kubernetes object (no kind)")
        yield from _flatten(document)


@cache
def _loader() -> Any:
    """A safe loader that leaves times as text, as every Kubernetes tool does."""
    import yaml

    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    resolvers = {
        first: [r for r in rules if r[0] != "tag:yaml.org,2002:timestamp"]
        for first, rules in base.yaml_implicit_resolvers.items()
    }
    return type("ManifestLoader", (base,), {"yaml_implicit_resolvers": resolvers})


def _flatten(obj: Json) -> Iterator[Json]:
    if str(obj.get("kind", "")).endswith("List") and isinstance(obj.get("items"), list):
        yield from obj["items"]
    else:
        yield obj
