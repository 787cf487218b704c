"""Node selection for one pod: filters until enough nodes are feasible, then scores.

The search starts where the last one ended and stops when enough nodes are feasible: all below 100 nodes, else 50 %
minus 1 % per 125 nodes, at least 5 %, at least 100 nodes. Plugins run in their order. Verdicts that depend only on the
pod, the node and its devices are cached (`framework/node_results.py`). Scores are weighted per plugin. The choice among
equal nodes is random. Long searches yield to the event loop.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from functools import partial
from itertools import compress, islice
from operator import attrgetter, itemgetter
from typing import Any, cast

from apiserver.runtime.clock import stopwatch
from controllers.scheduler.framework.attempt_metrics import Points
from controllers.scheduler.framework.framework import (
    FITS,
    REFUSED,
    SKIP,
    UNKNOWN,
    Cycle,
    Outcome,
    Plugin,
    PluginError,
    run_filter,
)
from controllers.scheduler.framework.node_results import FieldEncoder, OutcomeCache
from controllers.scheduler.framework.reuse_metrics import EXPIRED, HINT_NOT_USED, HINT_USED, NO_HINT, NOT_BATCHABLE
from controllers.scheduler.framework.status import NO_NODES, Diagnosis, FitError, Rejection, SchedulingError
from controllers.scheduler.plugins.extenders import NAME as EXTENDER
from controllers.scheduler.plugins.extenders import ExtenderError, Extenders
from controllers.scheduler.state.affected_nodes import DeviceReach
from controllers.scheduler.state.nodes import Cache, NodeInfo, Nominator
from controllers.scheduler.state.pod_info import PodInfo

_FEWEST_NODES, _LEAST_PERCENT, _MOST_PERCENT, _NODES_PER_PERCENT = 100, 5, 50, 125
_PIECE = 0.002
"""Seconds of work before the search yields the loop."""
_NAME = attrgetter("name")
Scorer = tuple[Plugin, Any]
"""A plugin with its state."""


class Evaluator:
    """The filters and scores of a list of plugins over a cache of nodes."""

    def __init__(
        self,
        cache: Cache,
        plugins: Sequence[Plugin],
        reach: DeviceReach,
        choice: random.Random,
        nominator: Nominator | None = None,
        percentage: int = 0,
        extenders: Extenders | None = None,
        points: Points | None = None,
        timed_plugins: Sequence[Plugin] = (),
    ) -> None:
        """Create an evaluator. `timed_plugins` are the same plugins with timed functions."""
        self.cache, self.plugins, self._timed_plugins = cache, tuple(plugins), tuple(timed_plugins)
        self._points = points or Points()
        self._nominator = nominator or Nominator()
        self._nominated = self._nominator.waiting
        self._choice, self._percentage = choice, percentage
        self._extenders = extenders or Extenders()
        self._shape = FieldEncoder(self.plugins)
        self._outcome_cache = OutcomeCache(cache, reach, partial(self._points.count_flush, EXPIRED))
        self._start = 0

    async def place(self, cycle: Cycle) -> NodeInfo:
        """Return the best node. Raise FitError or SchedulingError."""
        result = HINT_NOT_USED
        try:
            node = await self._place(cycle)
            result = HINT_NOT_USED if node.name in cycle.evaluated else HINT_USED
            return node
        finally:
            self._points.count_reuse(result if cycle.hinted else NO_HINT)

    async def _place(self, cycle: Cycle) -> NodeInfo:
        nodes = self.cache.list()
        if cycle.within is not None:
            nodes = [node for node in nodes if node.name in cycle.within]
        if not nodes:
            raise SchedulingError(NO_NODES)
        diagnosis = Diagnosis(len(nodes))
        with self._points.at("PreFilter") as point:
            refused = self.prefilter(cycle)
            if refused is not None:
                point.status = refused.code.value
        if refused is not None:
            diagnosis.prefilter = ", ".join(refused.reasons)
            diagnosis.absent = Rejection(refused.plugin, (), refused.code)
            diagnosis.plugins.add(refused.plugin)
            raise FitError(diagnosis)
        with self._points.at("Filter"):
            feasible = await self._feasible(cycle, nodes, diagnosis)
        if self._extenders and feasible:
            feasible = await self._filter_by_extenders(cycle.pod, feasible, diagnosis)
        if not feasible:
            diagnosis.plugins.update(r.plugin for r in diagnosis.rejections.values())
            if diagnosis.absent is not None and len(diagnosis.rejections) < diagnosis.nodes:
                diagnosis.plugins.update(cycle.narrowed_by)
            raise FitError(diagnosis)
        if len(feasible) == 1:
            return feasible[0]
        return self._select_node(
            cycle, feasible, await self._extenders.scores(cycle.pod, feasible) if self._extenders else ()
        )

    async def _filter_by_extenders(self, pod: PodInfo, nodes: list[NodeInfo], diagnosis: Diagnosis) -> list[NodeInfo]:
        """Return the nodes that the extenders admit. Raise SchedulingError."""
        try:
            feasible = await self._extenders.filter(pod, nodes, diagnosis.rejections)
        except ExtenderError as error:
            raise SchedulingError(str(error)) from error
        if len(feasible) != len(nodes):
            diagnosis.plugins.add(EXTENDER)
        return feasible

    def prefilter(self, cycle: Cycle) -> Rejection | None:
        """Run PreFilter and look up the cached outcomes. Return a rejection of all nodes. Raise SchedulingError."""
        pod = cycle.pod
        key: list[bytes | None] = [self._shape.of(pod)]
        for place, plugin in enumerate(self._timed_plugins if cycle.is_timed else self.plugins):
            state, cacheable = None, plugin.cacheable
            if plugin.pre_filter is not None:
                try:
                    state = plugin.pre_filter(pod)
                except PluginError as error:
                    raise SchedulingError(f'running PreFilter plugin "{plugin.name}": {error}') from error
                cycle.states[plugin.name] = SKIP if isinstance(state, Rejection) else state
                if isinstance(state, Rejection):
                    return state
                if cacheable and plugin.shape is not None:
                    key.append(shape := plugin.shape(state))
                    cacheable = shape is not None
            if plugin.nodes is not None and (names := plugin.nodes(pod, state)) is not None:
                cycle.only = names if cycle.only is None else cycle.only & names
                cycle.narrowed_by += (plugin.name,)
            if plugin.filter is not None and state is not SKIP:
                cycle.filters.append((place, plugin, state, cacheable))
                cycle.has_uncached_filters |= not cacheable
        elapsed = stopwatch()
        begun = elapsed()
        cycle.outcomes = self._outcome_cache.of(tuple(key))
        cycle.hinted = bool(cycle.outcomes)
        self._points.observe_lookup(elapsed() - begun, cycle.hinted)
        if cycle.has_uncached_filters:
            self._points.count_flush(NOT_BATCHABLE)
        return None

    def rejection(self, cycle: Cycle, node: NodeInfo) -> Rejection | None:
        """Filter one node, with the pods nominated to it counted in. Return the rejection. Raise SchedulingError."""
        if self._nominated and (others := self._nominator.before(cycle.pod, node.name)):
            refused = cycle.filter_node_with(node, others)
            if refused is not None:
                return refused
        outcome = cycle.outcomes.get(node.name)
        if outcome is None:
            outcome = cycle.outcomes[node.name] = Outcome()
        elif outcome.complete and not cycle.has_uncached_filters:
            return outcome.rejection
        cycle.evaluated.add(node.name)
        for place, plugin, state, cacheable in cycle.filters:
            if cacheable:
                if place < outcome.passed:
                    continue
                if place == outcome.refused_at:
                    return outcome.rejection
            refused = run_filter(plugin, cycle.pod, state, node)
            if not cacheable:
                if refused is not None:
                    return refused
                continue
            if refused is not None:
                outcome.refused_at, outcome.rejection, outcome.complete = place, refused, True
                return refused
            outcome.passed = place + 1
        outcome.complete = True
        return None

    async def _feasible(self, cycle: Cycle, nodes: list[NodeInfo], diagnosis: Diagnosis) -> list[NodeInfo]:
        nominated = self.cache.nodes.get(self._nominator.node_of(cycle.pod))
        if cycle.within is not None and nominated is not None and nominated.name not in cycle.within:
            nominated = None
        if nominated is not None and nominated.node is not None and self.rejection(cycle, nominated) is None:
            return [nominated]
        if cycle.only is not None:
            reason = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(cycle.narrowed_by))}]"
            diagnosis.absent = Rejection(cycle.narrowed_by[0], (reason,))
            nodes = [node for node in nodes if node.name in cycle.only]
            if not nodes:
                return []
        return await self._search(cycle, nodes, diagnosis)

    async def _search(self, cycle: Cycle, nodes: list[NodeInfo], diagnosis: Diagnosis) -> list[NodeInfo]:
        """Return the first feasible nodes, starting where the last search ended.

        Known outcomes are a row of bytes, so that only unknown nodes cost anything.
        """
        count, target = len(nodes), self._nodes_to_find(len(nodes))
        start = self._start % count
        order = nodes[start:] + nodes[:start]
        plain = nodes is self.cache.list() and not cycle.has_uncached_filters and not self._nominated
        marks = cycle.outcomes.marks(nodes) if plain else bytearray((UNKNOWN,)) * count
        row = marks[start:] + marks[:start]
        refused: dict[str, Rejection] = {}
        elapsed = stopwatch()
        pause = elapsed() + _PIECE
        place = feasible_count = 0
        while feasible_count < target:
            unknown = row.find(UNKNOWN, place)
            feasible_count += row.count(FITS, place, unknown if unknown >= 0 else count)
            if unknown < 0 or feasible_count >= target:
                break
            node, place = order[unknown], unknown + 1
            row[unknown] = self._evaluate_node(cycle, node, refused)
            feasible_count += row[unknown] == FITS
            marks[(start + unknown) % count] = cycle.outcomes.mark(node.name)
            if elapsed() > pause:
                await asyncio.sleep(0)
                pause = elapsed() + _PIECE
        places = list(islice(compress(range(count), row), target))
        evaluated = places[-1] + 1 if len(places) == target else count
        self._start = (start + evaluated) % count
        feasible = list(map(order.__getitem__, places))
        if nodes is not self.cache.list():
            # A node may have been deleted while the search yielded.
            feasible = [node for node in feasible if node.node is not None]
        if self._extenders or not feasible:
            for place in range(evaluated):
                name = order[place].name
                if row[place] == REFUSED and (why := refused.get(name) or cycle.outcomes.rejection(name)) is not None:
                    diagnosis.rejections[name] = why
        return feasible

    def _evaluate_node(self, cycle: Cycle, node: NodeInfo, refused: dict[str, Rejection]) -> int:
        """Filter one node and return its mark; add its rejection to `refused`. Raise SchedulingError."""
        if node.node is None:
            return REFUSED
        rejection = self.rejection(cycle, node)
        if rejection is None:
            return FITS
        refused[node.name] = rejection
        return REFUSED

    def _nodes_to_find(self, nodes: int) -> int:
        """Return the number of feasible nodes at which the search stops."""
        if nodes < _FEWEST_NODES or self._percentage >= 100:
            return nodes
        percent = self._percentage or max(_LEAST_PERCENT, _MOST_PERCENT - nodes // _NODES_PER_PERCENT)
        return max(_FEWEST_NODES, nodes * percent // 100)

    def _select_node(self, cycle: Cycle, nodes: list[NodeInfo], extra_scores: Sequence[int]) -> NodeInfo:
        """Return a node with the highest score. `extra_scores` is added to the scores of the plugins."""
        totals = self.totals(cycle, nodes)
        if extra_scores:
            totals = [total + extra for total, extra in zip(totals, extra_scores, strict=True)]
        highest = max(totals)
        best = [node for node, total in zip(nodes, totals, strict=True) if total == highest]
        return best[0] if len(best) == 1 else self._choice.choice(best)

    def totals(self, cycle: Cycle, nodes: list[NodeInfo]) -> list[int]:
        """Return the weighted scores. A plugin with equal scores for all nodes is skipped."""
        with self._points.at("PreScore"):
            cached, live = self._scorers(cycle)
        with self._points.at("Score"):
            return self._weighted_scores(cycle, nodes, cached, live)

    @staticmethod
    def _weighted_scores(cycle: Cycle, nodes: list[NodeInfo], cached: list[Scorer], live: list[Scorer]) -> list[int]:
        pod = cycle.pod
        try:
            rows = _score_rows(pod, cached, nodes, cycle.outcomes.scores)
            totals = list(map(itemgetter(0), rows))
            columns = [plugin for plugin, _ in cached if plugin.normalize is not None]
            for column, plugin in enumerate(columns, 1):
                _add(totals, plugin, list(map(itemgetter(column), rows)))
            for plugin, state in live:
                if plugin.scores is not None:
                    _add(totals, plugin, plugin.scores(pod, state, nodes))
                else:
                    assert plugin.score is not None
                    _add(totals, plugin, [plugin.score(pod, state, node) for node in nodes])
        except PluginError as error:
            raise SchedulingError(f"running Score plugins: {error}") from error
        return totals

    def _scorers(self, cycle: Cycle) -> tuple[list[Scorer], list[Scorer]]:
        """Return the scoring plugins for this pod: those with cacheable scores, and the others."""
        cached: list[Scorer] = []
        live: list[Scorer] = []
        for plugin in self._timed_plugins if cycle.is_timed else self.plugins:
            if not plugin.has_score:
                continue
            state = cycle.states.get(plugin.name)
            cacheable = plugin.cacheable and plugin.scores is None
            if cacheable and plugin.shape is not None:
                cacheable = plugin.shape(state) is not None
            if plugin.pre_score is not None:
                try:
                    state = plugin.pre_score(cycle.pod, None if state is SKIP else state)
                except PluginError as error:
                    raise SchedulingError(f'running PreScore plugin "{plugin.name}": {error}') from error
                if state is SKIP:
                    continue
            (cached if cacheable else live).append((plugin, state))
        return cached, live


def _score_rows(
    pod: PodInfo, scorers: list[Scorer], nodes: list[NodeInfo], known: dict[str, tuple[int, ...]]
) -> list[tuple[int, ...]]:
    """Return the cached scores of the nodes (`NodeOutcomes.scores`) and compute missing ones.

    Nearly all are cached: only a few of several hundred nodes change between two pods of the same shape.
    """
    rows = list(map(known.get, map(_NAME, nodes)))
    for place, node in enumerate(nodes) if None in rows else ():
        if rows[place] is None:
            rows[place] = known[node.name] = _score_node(pod, scorers, node)
    return cast("list[tuple[int, ...]]", rows)


def _score_node(pod: PodInfo, scorers: list[Scorer], node: NodeInfo) -> tuple[int, ...]:
    """Compute the cacheable scores of one node."""
    total, raw = 0, []
    for plugin, state in scorers:
        assert plugin.score is not None
        score = plugin.score(pod, state, node)
        if plugin.normalize is None:
            total += plugin.weight * score
        else:
            raw.append(score)
    return (total, *raw)


def _add(totals: list[int], plugin: Plugin, scores: list[int] | None) -> None:
    if scores is None or min(scores) == max(scores):
        return
    if plugin.normalize is not None:
        scores = plugin.normalize(scores)
    weight = plugin.weight
    for position, score in enumerate(scores):
        totals[position] += weight * score
