"""The allocator finds the first result in order, as a brute-force search does, with and without pruning."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.allocator import AllocationError, candidates, search, view
from controllers.allocator.plan import RESULTS_LIMIT
from tests.allocator.bruteforce import BruteForce, Failure, Outcome
from tests.allocator.worlds import FEATURES, NODE, World, make_world

SETS = [frozenset(names) for size in (1, 2) for names in itertools.combinations(FEATURES, size)]
SEEDS = 60


@dataclass
class Answer:
    """Picks as (claim, request, device), None, or the text of an error."""

    picks: list[tuple[int, str, tuple[str, str, str]]] | None
    error: str = ""


def search_all(world: World, limit: int) -> tuple[Answer, Outcome | None]:
    try:
        outcome = BruteForce(world, limit).run()
    except Failure as failure:
        return Answer(None, str(failure)), None
    return Answer(outcome.picks), outcome


def answer(world: World) -> Answer:
    try:
        allocations = world.allocator().for_pod(world.claims).allocate(NODE)
    except AllocationError as error:
        return Answer(None, error.text)
    if allocations is None:
        return Answer(None)
    return Answer(
        [
            (claim, result["request"], (result["driver"], result["pool"], result["device"]))
            for claim, allocation in enumerate(allocations)
            for result in allocation["devices"].get("results", ())
        ]
    )


def limit_results(monkeypatch: pytest.MonkeyPatch, features: frozenset[str]) -> int:
    limit = 4 if "limit" in features else RESULTS_LIMIT
    monkeypatch.setattr(search, "RESULTS_LIMIT", limit)
    monkeypatch.setattr(candidates, "RESULTS_LIMIT", limit)
    return limit


@pytest.mark.slow
@pytest.mark.parametrize("features", SETS, ids=lambda names: "+".join(sorted(names)))
def test_every_result_is_the_first_one_in_order(features: frozenset[str], monkeypatch: pytest.MonkeyPatch) -> None:
    limit = limit_results(monkeypatch, features)
    monkeypatch.setattr(view, "_CHUNK", 1)
    for seed in range(SEEDS):
        world = make_world(random.Random(f"{sorted(features)} {seed}"), features)
        want, _ = search_all(world, limit)
        for search_is, steps in (("plain", 10**9), ("pruned", -1)):
            monkeypatch.setattr(search, "EASY_STEPS", steps)
            assert answer(world) == want, f"seed {seed}, {search_is}"


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False), st.frozensets(st.sampled_from(FEATURES), max_size=6), st.booleans())
def test_every_result_is_the_first_one_with_many_features(
    rng: random.Random, features: frozenset[str], hard: bool
) -> None:
    world = make_world(rng, features - {"limit"})
    want, _ = search_all(world, RESULTS_LIMIT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "EASY_STEPS", -1 if hard else 10**9)
        assert answer(world) == want


def test_at_least_30_percent_of_the_worlds_need_backtracking() -> None:
    total = backtracked = found = 0
    for features in SETS:
        for seed in range(5):
            world = make_world(random.Random(f"{sorted(features)} {seed}"), features)
            _, outcome = search_all(world, 4 if "limit" in features else 32)
            if outcome is not None:
                total += 1
                backtracked += outcome.backtracked
                found += outcome.picks is not None
    assert backtracked >= 0.3 * total, (backtracked, total)
    assert found >= 0.3 * total, (found, total)
