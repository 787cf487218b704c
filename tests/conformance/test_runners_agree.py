"""The tool that comes with the recordings and our own runner see the same answers and judge them alike."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from tests.conformance import recordings
from tests.conformance.compare import differences
from tests.conformance.conversation import Conversation
from tests.conformance.player import Player
from tests.conformance.servers import Servers
from tests.support.server import Running

_FOLDER = recordings.folder()
#: Every so many of the recorded conversations.
_STRIDE = 15

pytestmark = [pytest.mark.skipif(_FOLDER is None, reason=recordings.MISSING), pytest.mark.integration]


@pytest.fixture(scope="module")
def replay() -> ModuleType:
    assert _FOLDER is not None
    spec = importlib.util.spec_from_file_location("replay", _FOLDER / "replay.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def servers_for_both() -> Iterator[Servers]:
    """Yield servers whose timers run, because the other tool waits in real time."""
    assert _FOLDER is not None
    with Servers(_FOLDER / "tokens.csv", str, standing=False) as servers:
        yield servers


def sample() -> list[Any]:
    quick = [c for c in recordings.conversations() if not any("sleep" in step or "until" in step for step in c.steps)]
    chosen = quick[::_STRIDE]
    for kind in ("watch", "webhook"):  # the rarest steps, whatever the stride meets
        chosen += [c for c in quick if any(kind in step for step in c.steps)][:2]
    return [pytest.param(conversation, id=conversation.title) for conversation in chosen]


def theirs(replay: ModuleType, url: str, conversation: Conversation) -> list[Any]:
    """Return the other tool's results for the answers."""
    given = {"name": conversation.name, "steps": copy.deepcopy(list(conversation.steps))}
    run, outcomes = replay.Run(replay.Api(url), given), []
    for step in given["steps"]:
        try:
            outcomes.append(run.step(step))
        except Exception as error:  # noqa: BLE001 - as its main does
            outcomes.append({"failed": f"{type(error).__name__}: {error}"})
    run.end()
    if run.api.conn:
        run.api.conn.close()
    return outcomes


def ours(server: Running, conversation: Conversation) -> list[Any]:
    with Player(server.url, conversation.name, server.time) as player:
        return [player.attempt(step) for step in conversation.steps]


@pytest.mark.parametrize("conversation", sample() if _FOLDER else [None])
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_both_see_the_same_answers_and_judge_them_alike(
    conversation: Conversation, replay: ModuleType, servers_for_both: Servers
) -> None:
    server = servers_for_both.get(conversation.profile, "memory")
    seen, expected = ours(server, conversation), [step.get("expect") for step in conversation.steps]
    assert seen == theirs(replay, server.url, conversation)
    for want, got in zip(expected, seen, strict=True):
        if want is not None:
            assert (not list(differences(want, got))) == (not list(replay.diff(want, got)))


def test_both_tell_the_same_values_apart(replay: ModuleType) -> None:
    pairs: list[tuple[Any, Any]] = [
        ({"a": 1}, {"a": 1}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": 1}, {"a": True}),
        ({"a": 0}, {"a": False}),
        ({"a": None}, {}),
        ({}, {"a": None}),
        ([1, 2], [1, 2]),
        ([1, 2], [2, 1]),
        ([1, 2], [1]),
        ([], {}),
        ("", None),
        ({"a": {"b": [{"c": "x"}]}}, {"a": {"b": [{"c": "y"}]}}),
    ]
    for want, got in pairs:
        assert (not list(differences(want, got))) == (not list(replay.diff(want, got))), (want, got)
