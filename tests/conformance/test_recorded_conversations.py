"""Conversations recorded with a real kube-apiserver: what was equal once stays equal, on every storage.

Postgres takes more than half of the time, and its log has tests of its own, so it has every third of them.

The list of them is docs/data/conformance.json. Those that are not equal yet are held up to their first difference, so that the day on which they become equal is seen.
"""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.conformance import fidelity, recordings
from tests.conformance.conversation import Conversation
from tests.conformance.ledger import Ledger
from tests.conformance.player import play
from tests.conformance.servers import STORAGES, Servers

pytestmark = pytest.mark.integration

_LEDGER = Ledger.read()
_RECORDED = sorted(recordings.conversations(), key=lambda c: (c.profile, c.file))
#: Seconds that a conversation has for each `until` when it is expected to differ.
_GLANCE = 0.5

needs_recordings = pytest.mark.skipif(not _RECORDED, reason=recordings.MISSING)


def slow(storage: str) -> list[pytest.MarkDecorator]:
    return [] if storage == "memory" else [pytest.mark.slow]


def _equal_ones() -> list[object]:
    """Return the conversations that were equal once, by storage: those of one server one after the other."""
    return [
        pytest.param(conversation, storage, id=f"{conversation.title} {storage}", marks=slow(storage))
        for storage in STORAGES
        for conversation in (_RECORDED[::3] if storage == "postgres" else _RECORDED)
        if _LEDGER.equal.get(conversation.title)
    ]


def _others() -> list[object]:
    by_file: dict[str, list[Conversation]] = defaultdict(list)
    for conversation in _RECORDED:
        if not _LEDGER.equal.get(conversation.title):
            by_file[conversation.file].append(conversation)
    return [pytest.param(conversations, id=file) for file, conversations in sorted(by_file.items())]


if _RECORDED:

    @pytest.mark.parametrize(("conversation", "storage"), _equal_ones())
    def test_a_conversation_that_was_equal_is_equal(
        conversation: Conversation, storage: str, servers_of_recordings: Servers
    ) -> None:
        outcome = play(servers_of_recordings.get(conversation.profile, storage), conversation)
        assert outcome.passed, "\n".join(outcome.differences)

    @pytest.mark.slow
    @pytest.mark.parametrize("conversations", _others())
    def test_a_conversation_that_becomes_equal_is_put_on_the_list(
        conversations: list[Conversation], servers_of_recordings: Servers
    ) -> None:
        equal, reasons = [], set()
        for conversation in conversations:
            server = servers_of_recordings.get(conversation.profile, "memory")
            if play(server, conversation, patience=_GLANCE, to_first_difference=True).passed:
                equal.append(conversation.title)
            else:
                reasons.add(_LEDGER.reason(conversation.title) or "not on the list yet")
        listed = "python -m tests.conformance.conversations --record --only"
        assert not equal, f"equal now, put on the list by `{listed} TITLE`: {equal}"
        pytest.xfail(f"{len(conversations)} differ: {'; '.join(sorted(reasons))}")


@needs_recordings
def test_the_list_names_no_conversation_that_is_not_there() -> None:
    assert sorted(_LEDGER.equal.keys() - {conversation.title for conversation in _RECORDED}) == []


def test_every_conversation_on_the_list_that_differs_has_a_reason() -> None:
    assert [title for title, equal in _LEDGER.equal.items() if not equal and not _LEDGER.reason(title)] == []


def test_the_page_on_fidelity_shows_the_list() -> None:
    text = fidelity.PAGE.read_text()
    assert text == fidelity.page(text, _LEDGER), "run python -m tests.conformance.fidelity"
