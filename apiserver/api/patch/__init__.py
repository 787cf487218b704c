"""The three kinds of patch, on parsed JSON: (document, patch) → patched document.

None of them changes the patch. The document is the caller's to give away: parts of it may live on in the result, but
nothing in it is changed in place. Results and error texts are upstream's (evanphx/json-patch v4, k8s.io/apimachinery
strategicpatch).
"""

from __future__ import annotations

from apiserver.api.patch.errors import PatchError
from apiserver.api.patch.jsonpatch import json_patch
from apiserver.api.patch.mergepatch import merge_patch
from apiserver.api.patch.strategic import strategic_merge_patch

__all__ = ["PatchError", "json_patch", "merge_patch", "strategic_merge_patch"]
