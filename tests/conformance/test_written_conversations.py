"""Our own conversations, one for each rule (tests/conversations/): every answer is as the rule says, on every storage."""

from __future__ import annotations

import pytest

from tests.conformance.conversation import Conversation
from tests.conformance.player import play
from tests.conformance.servers import STORAGES, Servers
from tests.conformance.written import load

pytestmark = pytest.mark.integration

_WRITTEN = sorted(load(), key=lambda c: (c.profile, c.file))


@pytest.mark.parametrize(
    ("conversation", "storage"),
    [
        pytest.param(
            conversation,
            storage,
            id=f"{conversation.title} {storage}",
            marks=[] if storage == "memory" else [pytest.mark.slow],
        )
        for storage in STORAGES
        for conversation in _WRITTEN
    ],
)
def test_every_answer_is_as_the_rule_says(conversation: Conversation, storage: str, servers: Servers) -> None:
    outcome = play(servers.get(conversation.profile, storage), conversation)
    assert outcome.passed, "\n".join(outcome.differences)


def test_no_two_conversations_of_a_file_have_one_name() -> None:
    titles = [conversation.title for conversation in _WRITTEN]
    assert sorted(set(titles)) == sorted(titles)
