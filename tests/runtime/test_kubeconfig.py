"""Kubeconfigs that the components cannot use end in one line that names the file and the field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controllers.runtime.kubeconfig import KubeconfigError, load_kubeconfig


@pytest.mark.parametrize(
    ("cluster", "user", "text"),
    [
        ({"certificate-authority-data": "?none?"}, {}, "certificate-authority-data: "),
        ({}, {"tokenFile": "gone"}, "tokenFile: "),
        ({}, {"client-certificate": "gone"}, "client-certificate: "),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], text: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", **cluster}}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    with pytest.raises(KubeconfigError) as caught:
        load_kubeconfig(file)
    assert str(caught.value).startswith(f"{file}: {text}")
