"""Frames come out of the pipe as they were put in, however the pipe cuts them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.runtime.frames import FrameKind, Frames, build_frame, build_parts, split_parts

pytestmark = pytest.mark.integration

FRAMES = st.lists(st.tuples(st.sampled_from(FrameKind), st.integers(0, 2**32 - 1), st.binary(max_size=40)))


@given(frames=FRAMES, cuts=st.lists(st.integers(1, 30)))
def test_frames_are_the_same_wherever_they_are_cut(frames: list[tuple[FrameKind, int, bytes]], cuts: list[int]) -> None:
    text, reader, found = b"".join(build_frame(*each) for each in frames), Frames(), list[tuple[int, int, bytes]]()
    for size in [*cuts, len(text)]:
        piece, text = text[:size], text[size:]
        found += reader.feed(piece)
    assert found == frames


@given(st.recursive(st.none() | st.booleans() | st.text(), st.lists), st.binary())
def test_a_value_and_a_body_stay_apart(value: object, body: bytes) -> None:
    [(sort, number, payload)] = Frames().feed(build_parts(FrameKind.ANSWER, 7, value, body))
    assert (sort, number, split_parts(payload)) == (FrameKind.ANSWER, 7, (value, body))


def test_a_long_frame_is_put_together_once() -> None:
    """Joining what has come with every further piece would take minutes for a list of some hundred megabytes."""
    reader, whole = Frames(), build_frame(FrameKind.CHUNK, 1, bytes(64 * 1024 * 1024))
    pieces = [whole[start : start + 4096] for start in range(0, len(whole), 4096)]
    joined = 0
    for piece in pieces[:-1]:
        assert list(reader.feed(piece)) == []
        joined = max(joined, len(reader._pieces[0]))
    assert joined < 2 * 4096
    [(_, _, payload)] = reader.feed(pieces[-1])
    assert len(payload) == 64 * 1024 * 1024
