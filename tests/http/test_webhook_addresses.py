"""The addresses at which webhooks are called: the paths of a clientConfig as client-go sends them."""

from __future__ import annotations

import pytest

from apiserver.webhooks.client import target_of


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("", "/"),
        ("/", "/"),
        ("//mutate-x", "/mutate-x"),
        ("/q/", "/q"),
        ("/a//b/../c/", "/a/c"),
        ("/../../a/./b", "/a/b"),
        ("/a%2Fb", "/a/b"),
        ("/a%20b!", "/a%20b%21"),
        ("/v1:review@x;y=1,2", "/v1:review@x;y=1,2"),
    ],
)
def test_the_path_of_a_url_is_decoded_and_cleaned(written: str, sent: str) -> None:
    assert target_of({"url": f"https://hooks.example.com:8443{written}"}).url == f"https://hooks.example.com:8443{sent}"


@pytest.mark.parametrize(
    ("written", "sent"), [(None, "/"), ("//mutate", "/mutate"), ("/a/", "/a"), ("/a%2Fb", "/a%252Fb")]
)
def test_the_path_of_a_service_is_cleaned_but_not_decoded(written: str | None, sent: str) -> None:
    service = {"namespace": "ns", "name": "hook", "path": written}
    assert target_of({"service": service}).url == f"https://hook.ns.svc:443{sent}"
