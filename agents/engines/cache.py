"""A key-value cache that is written in place instead of being copied at every token."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache, DynamicLayer

_FIRST_ROWS = 64  # a forking layer makes room for so many at first


class ReservedLayer(DynamicLayer):
    """A DynamicLayer whose storage has room for the tokens to come.

    transformers' own layer concatenates at every token, which copies the whole cache: measured at
    70 % of the time of a small model on a CPU. Here ``keys`` and ``values`` are views of a buffer
    that is larger than they are; a buffer that is full after all is doubled.
    """

    def __init__(self, reserve: int) -> None:
        """Makes an empty layer.

        Args:
            reserve: Tokens to make room for beyond the first ones.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        self._reserve = reserve
        self._storage: tuple[Tensor, Tensor] | None = None
        self._length = 0

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Appends states of shape [B, heads, new, size] and returns all of them so far."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        begin, end = self._length, self._length + key_states.shape[-2]
        if self._storage is None or end > self._storage[0].shape[-2]:
            self._grow(key_states, value_states, end + max(self._reserve, begin))
        assert self._storage is not None
        for storage, states in zip(self._storage, (key_states, value_states), strict=True):
            storage[:, :, begin:end] = states
        return self._show(end)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Makes the rows ``indices`` the new rows, in that order; one may come several times."""
        if self._storage is not None:
            self._storage = (self._storage[0][indices], self._storage[1][indices])
            self._show(self._length)

    def _grow(self, keys: Tensor, values: Tensor, capacity: int) -> None:
        old = self._storage
        self._storage = (
            keys.new_empty((*keys.shape[:2], capacity, keys.shape[-1])),
            values.new_empty((*values.shape[:2], capacity, values.shape[-1])),
        )
        if old is not None:
            for new, before in zip(self._storage, old, strict=True):
                new[:, :, : self._length] = before[:, :, : self._length]

    def _show(self, length: int) -> tuple[Tensor, Tensor]:
        assert self._storage is not None
        self._length = length
        keys, values = (storage[:, :, :length] for storage in self._storage)
        self.keys, self.values = keys, values
        return keys, values


def reserved_cache(model: Any, reserve: int) -> Cache:
    """Returns an empty cache for ``model`` with room for ``reserve`` tokens after the prompt.

    Layers that keep a sliding window or another state of their own stay transformers' own.
    """
    cache = DynamicCache(config=model.config)
    cache.layers = [
        ReservedLayer(reserve) if type(layer) is DynamicLayer else layer for layer in cache.layers
    ]
    return cache


class ForkingLayer(DynamicLayer):
    """Rows that come and go while all have the same length; a new row is copied from a prefix.

    Rows stand at places 0 .. rows - 1. Nothing moves when a row is added or its place reused.
    """

    def __init__(self, prefixes: CacheLayerMixin) -> None:
        """Makes a layer without rows.

        Args:
            prefixes: The layer that new rows are copied from, its states [P, heads, S, size].
        """
        super().__init__()  # type: ignore[no-untyped-call]
        assert prefixes.keys is not None and prefixes.values is not None
        self._prefixes = (prefixes.keys, prefixes.values)
        self._storage = [
            p.new_empty((0, p.shape[1], 0, p.shape[3])) for p in (prefixes.keys, prefixes.values)
        ]
        self._rows = 0
        self.lazy_initialization(*self._prefixes)

    def resize(self, rows: int, length: int, reserve: int) -> None:
        """Shows the first ``rows`` places and ``length`` tokens, and makes room for one more.

        Args:
            rows: Places in use.
            length: Tokens of each row.
            reserve: Further tokens to make room for if the storage is too short.
        """
        held, _, room, _ = self._storage[0].shape
        if rows > held or length + 1 > room:
            held = held if rows <= held else max(rows, 2 * held, _FIRST_ROWS)
            room = room if length + 1 <= room else length + 1 + reserve
            self._storage = [_enlarged(storage, held, room) for storage in self._storage]
        self._rows = rows
        self._show(length)

    def fork(self, places: Tensor, prefixes: Tensor, length: int) -> None:
        """Puts the first ``length`` tokens of the rows ``prefixes`` at ``places``."""
        for storage, source in zip(self._storage, self._prefixes, strict=True):
            rows = source[:, :, :length].index_select(0, prefixes)
            storage[:, :, :length].index_copy_(0, places, rows)

    def move(self, sources: Tensor, places: Tensor, length: int) -> None:
        """Puts the rows at ``sources`` to ``places``."""
        for storage in self._storage:
            storage[places, :, :length] = storage[sources, :, :length]

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Appends states of shape [rows, heads, 1, size] and returns all of them so far."""
        length = self._length
        for storage, states in zip(self._storage, (key_states, value_states), strict=True):
            storage[: self._rows, :, length : length + 1] = states
        return self._show(length + 1)

    def _show(self, length: int) -> tuple[Tensor, Tensor]:
        self._length = length
        self.keys, self.values = (s[: self._rows, :, :length] for s in self._storage)
        return self.keys, self.values


def _enlarged(storage: Tensor, rows: int, room: int) -> Tensor:
    new = storage.new_empty((rows, storage.shape[1], room, storage.shape[3]))
    new[: storage.shape[0], :, : storage.shape[2]] = storage
    return new


def only_plain_layers(model: Any) -> bool:
    """Returns whether every layer keeps all keys and values: no window, no state of its own."""
    layers = DynamicCache(config=model.config).layers
    return bool(layers) and all(type(layer) is DynamicLayer for layer in layers)


def plain_cache(model: Any) -> Cache:
    """Returns an empty cache of transformers for ``model``."""
    return DynamicCache(config=model.config)


def forking_cache(model: Any, prefixes: Cache) -> Cache:
    """Returns a cache without rows whose rows are copied from those of ``prefixes``."""
    cache = DynamicCache(config=model.config)
    cache.layers = [
        ForkingLayer(layer) for layer in prefixes.layers if isinstance(layer, CacheLayerMixin)
    ]
    return cache
