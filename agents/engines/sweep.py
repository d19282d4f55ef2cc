"""One sweep: states of all depths are continued in lockstep, by absolute position.

The paths to the states are computed once. Then the columns are walked from the shortest state on:
every live row has as many tokens as the column says, so that no row needs padding or a mask. At a
state's column the rows whose tokens equal the state are counted; what it lacks beyond them is
forked from the path's keys and values. So all depths cost one response length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers.cache_utils import Cache

from agents.engines.base import Completion, SamplingParams
from agents.engines.cache import ForkingLayer
from agents.engines.tree import OFF, IntArray, StateTree

_RESERVE = 256  # tokens that the cache makes room for at first
_ENDED_SHARE = 0.2  # places of ended rows are closed when they make up this share

Forward = Callable[[Tensor, Cache], Tensor]
"""(ids [B, 1], cache) -> logits of the last position [B, V]."""
Sample = Callable[[Tensor, NDArray[np.uint64], NDArray[np.uint64]], tuple[Tensor, Tensor]]
"""(logits [B, V], stream keys [B], positions [B]) -> ids and log-probabilities, each [B]."""


class _Rollouts:
    """All rollouts that a sweep may make, numbered as they are forked; arrays of length N."""

    def __init__(self, sampling: SamplingParams, lengths: IntArray) -> None:
        lacks = np.array([len(streams) for streams in sampling.streams], dtype=np.int64)
        budgets = np.array(sampling.max_new_tokens, dtype=np.int64)
        most = int(lacks.sum())
        self.lacks, self.budgets, self.lengths = lacks, budgets, lengths
        self.streams = [np.array(streams, dtype=np.uint64) for streams in sampling.streams]
        self.count = 0
        self.state = np.zeros(most, dtype=np.int64)
        self.keys = np.zeros(most, dtype=np.uint64)
        self.tokens = np.zeros((most, int(budgets.max())), dtype=np.int32)
        self.log_probs = np.zeros((most, int(budgets.max())), dtype=np.float32)
        self.sizes = np.zeros(most, dtype=np.int64)
        self.reasons = ["length"] * most

    def fork(self, states: IntArray, missing: IntArray) -> IntArray:
        """Begins ``missing[i]`` rollouts of ``states[i]``; returns their numbers."""
        numbers = self.count + np.arange(int(missing.sum()))
        self.state[numbers] = np.repeat(states, missing)
        parts = [self.streams[s][:n] for s, n in zip(states, missing, strict=True)]
        self.keys[numbers] = np.concatenate(parts)
        self.count += len(numbers)
        return numbers

    def completions(self) -> list[list[Completion]]:
        """Returns the rollouts of each state."""
        groups: list[list[Completion]] = [[] for _ in self.lengths]
        for number in range(self.count):
            size = self.sizes[number]
            groups[self.state[number]].append(
                Completion(
                    self.tokens[number, :size].tolist(),
                    self.log_probs[number, :size].tolist(),
                    self.reasons[number],
                )
            )
        return groups


class Sweep:
    """The sweep of one batch of trees."""

    def __init__(
        self,
        states: Sequence[Sequence[int]],
        tree: StateTree,
        cache: Cache,
        sampling: SamplingParams,
    ) -> None:
        """Gets ready.

        Args:
            states: Token ids of each state.
            tree: Of the states.
            cache: A ``forking_cache`` over the tree's paths.
            sampling: ``streams[i]`` are the streams of the rollouts that state i lacks.
        """
        self._states, self._tree, self._cache, self._sampling = states, tree, cache, sampling
        self._rollouts = _Rollouts(sampling, tree.lengths)
        self._last_column = int((tree.lengths + self._rollouts.budgets).max())
        self._at = {int(n): np.flatnonzero(tree.lengths == n) for n in np.unique(tree.lengths)}
        self._candidates = np.array(sorted(sampling.stop.stop_candidates), dtype=np.int64)
        nothing = np.zeros(0, dtype=np.int64)
        # By place: the rollout's number, its node, its last token, whether it still grows.
        self._number, self._node, self._last = nothing, nothing, nothing
        self._live = np.zeros(0, dtype=np.bool_)

    def run(self, forward: Forward, sample: Sample, device: torch.device) -> list[list[Completion]]:
        """Walks all columns; returns the rollouts of each state."""
        rollouts, columns = self._rollouts, sorted(self._at)
        column = columns[0]
        while True:
            self._fork(column, device)
            if not self._live.any():
                deeper = [length for length in columns if length > column]
                if not deeper:
                    return rollouts.completions()
                column = deeper[0]
                continue
            self._close(column, device)
            self._resize(column)
            ids = torch.from_numpy(self._last).to(device).unsqueeze(-1)
            positions = column - rollouts.lengths[rollouts.state[self._number]]
            chosen, log_probs = sample(
                forward(ids, self._cache), rollouts.keys[self._number], positions.astype(np.uint64)
            )
            self._last = chosen.cpu().numpy()
            self._record(positions, log_probs.cpu().numpy())
            self._end(positions)
            column += 1

    def _layers(self) -> list[ForkingLayer]:
        return [layer for layer in self._cache.layers if isinstance(layer, ForkingLayer)]

    def _resize(self, column: int) -> None:
        reserve = min(_RESERVE, self._last_column - column)
        for layer in self._layers():
            layer.resize(len(self._live), column - 1, reserve)

    def _fork(self, column: int, device: torch.device) -> None:
        """Adds the rows that the states of this column lack."""
        states = self._at.get(column)
        if states is None:
            return
        passing = np.bincount(
            self._node[self._live & (self._node != OFF)], minlength=self._tree.num_nodes
        )
        missing = self._rollouts.lacks[states] - passing[self._tree.node_of[states]]
        missing = np.maximum(missing, 0)
        numbers = self._rollouts.fork(states, missing)
        if not len(numbers):
            return
        free = np.flatnonzero(~self._live)[: len(numbers)]
        more = len(numbers) - len(free)
        places = np.concatenate([free, len(self._live) + np.arange(more)])
        self._live = np.append(self._live, np.zeros(more, dtype=np.bool_))
        self._number, self._node, self._last = (
            np.append(array, np.zeros(more, dtype=np.int64))
            for array in (self._number, self._node, self._last)
        )
        forked = self._rollouts.state[numbers]
        self._live[places] = True
        self._number[places] = numbers
        self._node[places] = self._tree.node_of[forked]
        self._last[places] = [self._states[state][-1] for state in forked]
        where = torch.from_numpy(places).to(device)
        paths = torch.from_numpy(self._tree.path_of[forked]).to(device)
        self._resize(column)
        for layer in self._layers():
            layer.fork(where, paths, column - 1)

    def _close(self, column: int, device: torch.device) -> None:
        """Moves the last rows into the places of ended ones, if these are many."""
        live = int(self._live.sum())
        if live > (1 - _ENDED_SHARE) * len(self._live):
            return
        places = np.flatnonzero(~self._live[:live])
        sources = live + np.flatnonzero(self._live[live:])
        for array in (self._number, self._node, self._last, self._live):
            array[places] = array[sources]
        self._number, self._node = self._number[:live], self._node[:live]
        self._last, self._live = self._last[:live], self._live[:live]
        taken, freed = (torch.from_numpy(array).to(device) for array in (sources, places))
        for layer in self._layers():
            layer.move(taken, freed, column - 1)

    def _record(self, positions: IntArray, log_probs: NDArray[np.float32]) -> None:
        live = self._live
        numbers, steps = self._number[live], positions[live]
        self._rollouts.tokens[numbers, steps] = self._last[live]
        self._rollouts.log_probs[numbers, steps] = log_probs[live]
        self._node = self._tree.step(self._node, self._last)

    def _end(self, positions: IntArray) -> None:
        """Marks the rows that their last token ended, and tells how many they are."""
        rollouts = self._rollouts
        state = rollouts.state[self._number]
        ended = self._live & (rollouts.budgets[state] == positions + 1)
        for place in np.flatnonzero(self._live & np.isin(self._last, self._candidates)):
            number, size = self._number[place], positions[place] + 1
            tokens, begun = rollouts.tokens[number, :size].tolist(), state[place]
            response = self._sampling.response_of(begun, self._states[begun], tokens)
            reason = self._sampling.stop.finish(response)
            if reason is not None:
                rollouts.reasons[number] = reason
                ended[place] = True
        rollouts.sizes[self._number[ended]] = positions[ended] + 1
        self._live = self._live & ~ended
        if ended.any():
            self._sampling.progress(int(ended.sum()), int(positions[ended].sum() + ended.sum()))
