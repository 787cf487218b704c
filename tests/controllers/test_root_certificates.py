"""Every namespace of a server with https tells its pods how to know the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.patience import wait_until
from tests.support.wire import Child

pytestmark = pytest.mark.integration

MAP = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt"


def test_a_namespace_has_the_servers_authority_whatever_becomes_of_it(tmp_path: Path) -> None:
    with Child(tmp_path, "--tls", "--controllers=root-ca-certificate-publisher-controller") as server:
        authority = (tmp_path / "tls.crt").read_text()
        wire = server.wire(ca=authority)

        def found() -> Any:
            answer = wire.get(MAP)
            return answer.status == 200 and answer.json["data"] == {"ca.crt": authority}

        wait_until(found, "it is there")
        assert wire.request("DELETE", MAP).status == 200
        wait_until(found, "it is there again")
        headers = {"Content-Type": "application/merge-patch+json"}
        assert wire.request("PATCH", MAP, {"data": {"ca.crt": "mine", "more": "x"}}, headers).status == 200
        wait_until(found, "it is as it was")
