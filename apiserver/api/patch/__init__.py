"""The three kinds of patch, on parsed JSON: (document, patch) → patched document.

They do not change the patch. The result may share parts with the document, so the caller gives the document away; it is
never changed in place. Results and error texts are upstream's (evanphx/json-patch v4, k8s.io/apimachinery
strategicpatch).
"""

from __future__ import annotations

from apiserver.api.patch.errors import PatchError
from apiserver.api.patch.jsonpatch import json_patch
from apiserver.api.patch.mergepatch import merge_patch
from apiserver.api.patch.strategic import strategic_merge_patch

__all__ = ["PatchError", "json_patch", "merge_patch", "strategic_merge_patch"]
