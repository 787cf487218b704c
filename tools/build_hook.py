"""Build hook of the wheel: the OpenAPI documents travel compressed, as `kubedra/_server/openapi/NAME.gz`."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_DESTINATION = Path("kubedra", "_server", "openapi")


class CompressDocuments(BuildHookInterface):  # type: ignore[type-arg]
    """Compresses the documents for one build. An editable install reads them from the repository."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the compressed documents to a temporary directory and add them to the wheel."""
        if version == "editable":
            return
        self._made = Path(tempfile.mkdtemp(prefix="kubedra-openapi-"))
        source = Path(self.root, "openapi")
        for number, document in enumerate(sorted(path for path in source.rglob("*") if path.is_file())):
            made = self._made / str(number)
            # Without the time, two builds give the same bytes.
            made.write_bytes(gzip.compress(document.read_bytes(), mtime=0))
            name = _DESTINATION / document.relative_to(source)
            build_data["force_include"][str(made)] = f"{name.as_posix()}.gz"

    def finalize(self, version: str, _build_data: dict[str, Any], _artifact: str) -> None:
        """Remove the temporary directory."""
        if version != "editable":
            shutil.rmtree(self._made)
