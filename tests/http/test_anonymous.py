"""Access without a token."""

from pathlib import Path

import httpx
import pytest

from kubedra import ControlPlane
from tests.support.tokens import token_flag

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(("modes", "code"), [("AlwaysAllow", 401), ("Node,RBAC", 403)])
def test_with_tokens_anonymous_requests_are_refused(tmp_path: Path, modes: str, code: int) -> None:
    flags = [token_flag(tmp_path), f"--authorization-mode={modes}"]
    with ControlPlane(controllers=False, args=flags) as plane:
        assert httpx.get(f"{plane.url}/api/v1/namespaces").status_code == code
        assert httpx.post(f"{plane.url}/-/reset").status_code == code
        with plane.client() as client:
            assert client.list("namespaces")
