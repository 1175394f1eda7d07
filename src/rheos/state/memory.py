"""Keyed state as Python objects in dicts, with dirty tracking: a snapshot costs what has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from rheos.graph.state import ListState, MapState, StateDeclaration, ValueState
from rheos.protocol.snapshots import PartMode, SnapshotPart
from rheos.state.backend import KeyedStateBackend, KeyScope
from rheos.state.codec import ValueCodec
from rheos.state.handles import ListHandle, MapHandle, MutableValueHandle, ValueHandle
from rheos.state.keys import KeyCodec
from rheos.state.parts import merged, row_part
from rheos.state.tables import ListTable, MapTable, StateTable, ValueTable


class MemoryBackend(KeyedStateBackend):
    """State that fits in the worker's memory."""

    def __init__(self, keys: KeyCodec, max_parallelism: int, scope: KeyScope | None = None) -> None:
        self.scope = scope or KeyScope()
        self._keys = keys
        self._max_parallelism = max_parallelism
        self._tables: dict[str, StateTable] = {}

    def handle(self, declaration: StateDeclaration) -> Any:
        name = declaration.name
        match declaration:
            case ValueState():
                table = self.value_table(name, declaration.type)
                make = ValueHandle if table.codec.immutable else MutableValueHandle
                return make(table, self.scope, declaration.default)
            case ListState():
                element = ValueCodec(name, declaration.type)
                lists = ListTable(ValueCodec(name, list[declaration.type]), element)  # type: ignore[name-defined]
                self._tables[name] = lists
                return ListHandle(lists, self.scope)
            case MapState():
                maps = MapTable(
                    ValueCodec(name, declaration.key_type), ValueCodec(name, declaration.value_type)
                )
                self._tables[name] = maps
                return MapHandle(maps, self.scope)
        raise AssertionError(f"unknown state {declaration!r}")

    def value_table(self, name: str, declared: Any) -> ValueTable:
        """The bare table of a value state, for operators that keep state of their own."""
        table = ValueTable(ValueCodec(name, declared))
        self._tables[name] = table
        return table

    def restore(self, restored: Mapping[str, Iterable[pa.Table]]) -> None:
        for name, table in self._tables.items():
            decode = self._keys.decode
            entries = merged(restored.get(name, ()))
            table.load((decode(key), namespace, value) for key, namespace, value in entries)

    def snapshot(self) -> list[SnapshotPart]:
        parts = []
        for name, table in self._tables.items():
            mode, entries = table.next_part()
            parts.append(row_part(name, mode, self._keys, self._max_parallelism, entries))
        return parts

    def savepoint(self) -> list[SnapshotPart]:
        parts = []
        for name, table in self._tables.items():
            _, entries = table.copy()
            parts.append(row_part(name, PartMode.FULL, self._keys, self._max_parallelism, entries))
        return parts

    def force_full(self) -> None:
        for table in self._tables.values():
            table.chain.force_full()
