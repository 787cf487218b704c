"""No load of one client makes the others wait: /readyz and a small GET take less than 0.1 s, seen from this process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.wire import Child
from tools.fuzz.latency import PATHS, Latency, loaded, quiet
from tools.fuzz.loads import LOADS

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="reads a process's times from /proc"),
]

#: Seconds.
MOST = 0.1


def measure(child: Child, load: str, token: str = "") -> None:
    """Assert that requests are answered in time. A busy machine makes a request wait, too, but not every time."""
    port = int(child.url.rpartition(":")[2])
    found: list[dict[str, float]] = []
    with loaded(load, port, token):
        while len(found) < 4:
            latency = Latency(child.process.pid, port)
            latency.measure(30)
            found.append({path: latency.percentile(path, 0.99) for path in PATHS})
            if max(found[-1].values()) < MOST:
                return
    pytest.fail(f"seconds that requests waited: {found}")


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.timeout(300)
def test_others_are_answered_immediately_under_a_load(tmp_path: Path, load: str) -> None:
    with Child(tmp_path / "server") as child:
        measure(child, load)


def test_others_are_answered_immediately_while_a_wrong_token_is_sent_again_and_again(tmp_path: Path) -> None:
    (tmp_path / "tokens.csv").write_text("secret,admin,1,system:masters\n")
    flags = (f"--token-auth-file={tmp_path / 'tokens.csv'}", "--authorization-mode=Node,RBAC")
    with Child(tmp_path / "server", *flags) as child:
        measure(child, "pipelined", "wrong")


@pytest.mark.parametrize(
    ("elapsed", "ran", "waited", "took"),
    [(1.0, 0.01, 0.0, 1.0), (1.0, 0.01, 0.9, 0.1), (1.0, 0.5, 0.9, 0.5), (1.0, 2.0, 0.0, 1.0), (1.0, 0.1, 3.0, 0.1)],
    ids=["an idle stall", "a busy machine", "work on a busy machine", "threads beside", "many threads wait"],
)
def test_the_time_that_a_busy_machine_takes_does_not_count(
    elapsed: float, ran: float, waited: float, took: float
) -> None:
    assert quiet(elapsed, ran, waited) == pytest.approx(took)
