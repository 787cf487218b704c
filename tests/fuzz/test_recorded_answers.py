"""We answer requests about single fields and lives of objects as a real kube-apiserver did.

`python -m tools.fuzz.record` records the answers, where its binaries are installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import groupby

import pytest

from tools.fuzz.beside import Server
from tools.fuzz.fields import Fields
from tools.fuzz.kept import digest, play_life, read_fields, read_lives
from tools.fuzz.record import PROFILES, alone

pytestmark = pytest.mark.integration

FIELDS = {profile: read_fields(profile) for profile in PROFILES}
LIVES = {of: list(found) for of, found in groupby(read_lives(), lambda pair: pair[0].of)}


@pytest.fixture(scope="module")
def of_profile() -> Iterator[Callable[[str], Server]]:
    """Return the servers by profile."""
    servers: dict[str, Server] = {}
    with ExitStack() as stack:

        def start(profile: str) -> Server:
            if profile not in servers:
                servers[profile] = stack.enter_context(alone(profile))
            return servers[profile]

        yield start


@pytest.fixture(scope="module")
def fields() -> Fields:
    return Fields()


@pytest.mark.parametrize(("profile", "kind"), [(profile, kind) for profile, kinds in FIELDS.items() for kind in kinds])
def test_a_field_is_judged_as_a_real_server_judges_it(
    of_profile: Callable[[str], Server], fields: Fields, profile: str, kind: str
) -> None:
    server, wrong = of_profile(profile), []
    for name, values in FIELDS[profile][kind].items():
        method, _, field = name.partition(" ")
        for value, wanted in values:
            got = server.asked(fields.case(kind, method, field, value))
            if digest(got) != wanted:
                wrong.append((name, value, wanted, got))
    assert wrong == []


@pytest.mark.parametrize("of", LIVES)
def test_an_object_lives_as_on_a_real_server(of_profile: Callable[[str], Server], of: str) -> None:
    server = of_profile("default")
    for life, wanted in LIVES[of]:
        for step, answer, got in zip(life.steps, wanted, play_life(server, life), strict=True):
            assert digest(got) == answer, (life.number, step, got)
