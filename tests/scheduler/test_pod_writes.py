"""Status writes for pods without a node, and TLS settings of extenders."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from apiserver.api.objects import Json
from controllers.scheduler.config.extenders import _pem, _server
from controllers.scheduler.config.fields import ConfigurationError
from controllers.scheduler.writes.pods import PodWriter
from tests.support.objects import make_pod
from tests.support.recording import RecordingClient

PEM = b"-----BEGIN CERTIFICATE-----"
DATA = b64encode(PEM).decode()


@pytest.mark.parametrize(
    ("before", "nominated", "written"),
    [
        ("", None, "left"), ("", "", "left"), ("", "n1", "n1"), ("n1", "n1", "left"), ("n1", "n2", "n2"), ("n1", "", None),
        ("n1", None, "left"),
    ],
)  # fmt: skip
async def test_the_nominated_node_is_written_only_where_it_changes(
    before: str, nominated: str | None, written: str | None
) -> None:
    pod, client = make_pod("p", status={"nominatedNodeName": before} if before else {}), RecordingClient()
    await PodWriter(client).write_unscheduled(pod, "Unschedulable", "no", nominated)  # type: ignore[arg-type]
    [(verb, _, (name, body))] = client.writes
    assert (verb, name, body["metadata"]) == ("patch/status", "p", {"uid": pod["metadata"]["uid"]})
    assert body["status"].get("nominatedNodeName", "left") == written
    [condition] = body["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "Unschedulable")
    assert condition["observedGeneration"] == 1


async def test_an_unchanged_nomination_is_not_written() -> None:
    client = RecordingClient()
    await PodWriter(client).nominate(make_pod("p", status={"nominatedNodeName": "n1"}), "n1")  # type: ignore[arg-type]
    assert client.writes == []
    await PodWriter(client).nominate(make_pod("p"), "n1")  # type: ignore[arg-type]
    [(_, _, (_, body))] = client.writes
    assert body["status"] == {"nominatedNodeName": "n1"}


@pytest.mark.parametrize(
    ("given", "https", "insecure"),
    [
        (None, False, False), (None, True, True), ({"caData": DATA}, True, False), ({"insecure": True}, False, True),
        ({"insecure": True, "caData": DATA}, True, True), ({"certData": DATA}, True, True),
    ],
)  # fmt: skip
def test_an_extender_without_a_certificate_authority_is_not_verified(
    given: Json | None, https: bool, insecure: bool
) -> None:
    found = _server("https://x", given, https, "tlsConfig")
    assert found.credentials.insecure is insecure
    assert found.authority == (PEM if given and "caData" in given else b"")


def test_certificates_are_inline_or_in_files(tmp_path: Path) -> None:
    file = tmp_path / "ca"
    file.write_bytes(b"of the file")
    assert _pem({"caData": DATA, "caFile": str(file)}, "ca", "t") == PEM
    assert _pem({"caFile": str(file)}, "ca", "t") == b"of the file"
    assert _pem({}, "ca", "t") == b""
    for wrong in ({"caData": "!"}, {"caFile": str(tmp_path / "none")}):
        with pytest.raises(ConfigurationError, match=r"^t\.ca: "):
            _pem(wrong, "ca", "t")
