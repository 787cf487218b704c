"""The headers of every answer: its date and its audit id."""

from __future__ import annotations

import time

import pytest

from apiserver.http.server import heads
from apiserver.request.messages import Request

pytestmark = pytest.mark.integration


def fields(**headers: str) -> dict[str, str]:
    """Return the headers of the answer to a request with these headers."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    lines = heads.marks(Request("GET", "/version", "", given, b"")).decode().strip().split("\r\n")
    return {name: value for name, _, value in (line.partition(": ") for line in lines)}


def test_the_date_is_the_systems_whichever_way_that_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds, said in (
        (1_700_000_000.0, "Tue, 14 Nov 2023 22:13:20 GMT"),
        (1_700_000_000.9, "Tue, 14 Nov 2023 22:13:20 GMT"),
        (1_700_000_001.0, "Tue, 14 Nov 2023 22:13:21 GMT"),
        (1_700_000_060.5, "Tue, 14 Nov 2023 22:14:20 GMT"),
        # The clock is set back.
        (1_700_000_000.5, "Tue, 14 Nov 2023 22:13:20 GMT"),
    ):
        monkeypatch.setattr(time, "time", lambda seconds=seconds: seconds)
        assert fields()["date"] == said


def test_each_request_has_its_own_id_or_the_one_in_its_header() -> None:
    made = [fields()["audit-id"] for _ in range(3)]
    assert len(set(made)) == 3
    assert {len(each) for each in made} == {36}
    assert fields(audit_id="mine")["audit-id"] == "mine"
