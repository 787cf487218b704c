"""Warn of files of one volume that hide each other, or that need a file as a directory (pkg/api/pod/warnings.go)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from apiserver.api.errors.field_errors import go_quote
from apiserver.api.objects import Json

__all__ = ["volume_path_warnings"]

#: Sources with files by `items`: the field of their name, and their kind in texts. DownwardAPI files have no name.
_WITH_ITEMS: Final = (
    ("configMap", "name", "ConfigMap"),
    ("secret", "secretName", "Secret"),
    ("downwardAPI", "", "DownwardAPI"),
)
_CERTIFICATE_FILES: Final = (
    ("certificateChainPath", "PodCertificate chain"),
    ("keyPath", "PodCertificate key"),
    ("credentialBundlePath", "PodCertificate credential bundle"),
)


def volume_path_warnings(volumes: list[Json]) -> list[str]:
    """Return the warnings about the files of each volume."""
    warnings: list[str] = []
    for volume in volumes:
        shown = go_quote(volume.get("name", ""))
        for field, name, kind in _WITH_ITEMS:
            source = volume.get(field) or {}
            files = [(item.get("path", ""), "") for item in source.get("items") or ()]
            of = f"{kind} {go_quote(source.get(name, ''))}" if name else kind
            warnings += [f"volume {shown} ({of}): overlapping paths: {text}" for text in _overlaps(files)]
        files = []
        for source in (volume.get("projected") or {}).get("sources") or ():
            if not any(part is not None for part in source.values()):
                warnings.append(f"volume {shown} (Projected) has no sources provided")
            added = list(_projected_files(source))
            warnings += [f"volume {shown} (Projected): overlapping paths: {text}" for text in _overlaps(added, files)]
            files += added
    return warnings


def _projected_files(source: Json) -> Iterator[tuple[str, str]]:
    """Yield the paths of a projected source, with its description."""
    for field, _, kind in _WITH_ITEMS:
        part = source.get(field) or {}
        of = f"{kind} {go_quote(part.get('name', ''))}" if field != "downwardAPI" else kind
        yield from ((item.get("path", ""), of) for item in part.get("items") or ())
    if (token := source.get("serviceAccountToken")) is not None:
        yield token.get("path", ""), "ServiceAccountToken"
    if (bundle := source.get("clusterTrustBundle")) is not None:
        name: Any = bundle["name"] if bundle.get("name") is not None else bundle.get("signerName", "")
        yield bundle.get("path", ""), f"ClusterTrustBundle {go_quote(name)}"
    if (certificate := source.get("podCertificate")) is not None:
        yield from ((certificate[field], of) for field, of in _CERTIFICATE_FILES if certificate.get(field))


def _overlaps(files: list[tuple[str, str]], before: list[tuple[str, str]] | None = None) -> list[str]:
    """Describe each file that has the path of an earlier one, or is above or below it."""
    known = [(path.rstrip("/"), of) for path, of in before or ()]
    found: list[str] = []
    for path, of in files:
        path = path.rstrip("/")
        for other, of_other in known:
            if path and other and (f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/")):
                found.append(f"{_shown(path, of)} with {_shown(other, of_other)}")
        known.append((path, of))
    return found


def _shown(path: str, of: str) -> str:
    return f"{go_quote(path)} ({of})" if of else go_quote(path)
