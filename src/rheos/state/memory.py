"""Keyed state as Python objects in dicts, with dirty tracking: a snapshot costs what has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rheos.graph.state import ListState, MapState, StateDeclaration, ValueState
from rheos.protocol.snapshots import PartMode, SnapshotPart, StateKind
from rheos.state.backend import ROWS, KeyedStateBackend, KeyScope
from rheos.state.codec import ValueCodec
from rheos.state.handles import ListHandle, MapHandle, MutableValueHandle, ValueHandle
from rheos.state.keys import KeyCodec

_DELETED = object()
_FULL_AFTER = 1.0
"""A chain of deltas as long as the state itself is replaced by a full part."""


@dataclass(slots=True)
class _Table:
    codec: ValueCodec
    values: dict[Any, Any] = field(default_factory=dict)
    dirty: set[Any] = field(default_factory=set)
    delta_rows: int = 0
    """Written since the last full part."""
    full_next: bool = True


class MemoryBackend(KeyedStateBackend):
    """State that fits in the worker's memory."""

    def __init__(self, keys: KeyCodec, max_parallelism: int) -> None:
        self.scope = KeyScope()
        self._keys = keys
        self._max_parallelism = max_parallelism
        self._tables: dict[str, _Table] = {}

    def handle(self, declaration: StateDeclaration) -> Any:
        match declaration:
            case ValueState():
                table = self._table(declaration.name, declaration.type)
                make = ValueHandle if table.codec.immutable else MutableValueHandle
                return make(table.values, table.dirty, self.scope, declaration.default)
            case ListState():
                table = self._table(declaration.name, list[declaration.type])  # type: ignore[name-defined]
                return ListHandle(table.values, table.dirty, self.scope)
            case MapState():
                declared = dict[declaration.key_type, declaration.value_type]  # type: ignore[name-defined]
                table = self._table(declaration.name, declared)
                return MapHandle(table.values, table.dirty, self.scope)
        raise AssertionError(f"unknown state {declaration!r}")

    def _table(self, name: str, declared: Any) -> _Table:
        table = _Table(ValueCodec(name, declared))
        self._tables[name] = table
        return table

    def values(self, name: str, declared: Any) -> tuple[dict[Any, Any], set[Any]]:
        """The bare dict of a state, and the set into which its user puts the keys it changes."""
        table = self._table(name, declared)
        return table.values, table.dirty

    def restore(self, restored: Mapping[str, Iterable[pa.Table]]) -> None:
        for name, table in self._tables.items():
            for rows in restored.get(name, ()):
                for key, value in zip(
                    map(self._keys.decode, rows.column("key").to_pylist()),
                    rows.column("value").to_pylist(),
                    strict=True,
                ):
                    if value is None:
                        table.values.pop(key, None)
                    else:
                        table.values[key] = table.codec.decode(value)

    def snapshot(self) -> list[SnapshotPart]:
        return [self._part(name, table) for name, table in self._tables.items()]

    def _part(self, name: str, table: _Table) -> SnapshotPart:
        full = table.full_next or table.delta_rows > _FULL_AFTER * len(table.values)
        keys: Sequence[Any] = list(table.values if full else table.dirty)
        values = [table.values.get(key, _DELETED) for key in keys]
        if not table.codec.immutable:
            # They may change before they are written: so they are encoded now.
            values = [
                _encoded(table.codec, key, value) for key, value in zip(keys, values, strict=True)
            ]
        table.dirty.clear()
        table.delta_rows = 0 if full else table.delta_rows + len(keys)
        table.full_next = False
        mode = PartMode.FULL if full else PartMode.DELTA
        return SnapshotPart(name, StateKind.KEYED, self._writer(table.codec, keys, values), mode)

    def _writer(
        self, codec: ValueCodec, keys: Sequence[Any], values: Sequence[Any]
    ) -> Callable[[], pa.Table]:
        def write() -> pa.Table:
            if codec.immutable:
                encoded = [_encoded(codec, key, value) for key, value in zip(keys, values, strict=True)]
            else:
                encoded = list(values)
            return row_table(self._keys, self._max_parallelism, keys, [b""] * len(keys), encoded)

        return write

    def snapshot_failed(self) -> None:
        for table in self._tables.values():
            table.full_next = True


def _encoded(codec: ValueCodec, key: Any, value: Any) -> bytes | None:
    return None if value is _DELETED else codec.encode(value, key)


def row_table(
    codec: KeyCodec,
    max_parallelism: int,
    keys: Sequence[Any],
    namespaces: Sequence[bytes],
    values: Sequence[bytes | None],
) -> pa.Table:
    """A part of row state, in its order."""
    table = pa.table(
        [
            pa.array(codec.groups(keys, max_parallelism), pa.uint16()),
            pa.array([codec.encode(key) for key in keys], pa.binary()),
            pa.array(namespaces, pa.binary()),
            pa.array(values, pa.binary()),
        ],
        schema=ROWS,
    )
    return table.sort_by([(name, "ascending") for name in ("key_group", "key", "namespace")])
