"""Names of nodes and the socket files of the server's own kubelets."""

from __future__ import annotations

from pathlib import Path

import pytest

from apiserver.http.kubelet.sockets import Kubelets

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("node", ["../secret", "/dev/null", "..", ".", "", "a/b", "a\0b", "a" * 300])
def test_a_binding_to_what_no_node_is_called_reads_no_file(tmp_path: Path, node: str) -> None:
    directory = tmp_path / "kubelets"
    directory.mkdir()
    for file in (tmp_path / "secret", directory / "node-1.example", directory / "b"):
        file.write_text("/nowhere")
    (directory / "a").mkdir()
    (directory / "a" / "b").write_text("/nowhere")
    kubelets = Kubelets(directory)
    assert kubelets.serves("node-1.example")
    assert not kubelets.serves(node)
    assert not kubelets.serves(str(tmp_path / "secret"))
