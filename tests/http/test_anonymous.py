"""Who may come without a token."""

import httpx
import pytest

from kubedra import ControlPlane

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory):
    file = tmp_path_factory.mktemp("tokens") / "tokens.csv"
    file.write_text('secret,admin,1,"system:masters"\n')
    return file


@pytest.mark.parametrize(("modes", "code"), [("AlwaysAllow", 401), ("Node,RBAC", 403)])
def test_where_tokens_are_asked_for_nobody_gets_in_without_one(tokens, modes, code) -> None:
    flags = [f"--token-auth-file={tokens}", f"--authorization-mode={modes}"]
    with ControlPlane(controllers=False, args=flags) as plane:
        assert httpx.get(f"{plane.url}/api/v1/namespaces").status_code == code
        assert httpx.post(f"{plane.url}/-/reset").status_code == code
        with plane.client() as client:
            assert client.list("namespaces")
