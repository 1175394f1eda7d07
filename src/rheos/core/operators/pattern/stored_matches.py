"""Live matches as stored state: one self-contained row for each key that has live matches.

A row has the key, the rows of the stream that its matches have taken, and three lists that refer to
each other by index: the nodes (the row that each took, and the node before it), the partial matches
(their last node, and the edges that they wait on), and the complete matches that wait (their last
node). So key groups can be combined from any number of subtasks, because no index has a meaning outside
its row (PM5). A delta has the complete row of each changed key. A key without live matches was removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rheos.core.errors import CheckpointError
from rheos.core.operators.fitting import fitted
from rheos.core.operators.pattern.automaton import Automaton
from rheos.core.operators.pattern.live_matches import LiveMatches, MatchNode, Partial, WholeMatch
from rheos.core.operators.pattern.matched_rows import MatchedRows
from rheos.core.protocol.elements import TS
from rheos.core.state.key_groups import groups_of_columns
from rheos.core.state.key_index import KeyIndex
from rheos.core.state.parts import GROUP

MATCHES = "matches"
"""Name of the state."""

_EVENTS, _NODES, _PARTIALS, _FOUND = "events", "nodes", "partials", "found"
_KEY = "key."

_NODE = pa.struct([("position", pa.int32()), ("event", pa.int32()), ("before", pa.int32())])
_PARTIAL = pa.struct([("node", pa.int32()), ("open", pa.list_(pa.int32()))])


class FrozenKey(NamedTuple):
    """Live matches of a key. The lists never change."""

    partials: Sequence[Partial]
    found: Sequence[WholeMatch]

    def nodes(self) -> list[MatchNode]:
        """Return all nodes, each once, and after its predecessor."""
        seen: set[int] = set()
        found: list[MatchNode] = []
        for last in (*(p.node for p in self.partials), *(f.node for f in self.found)):
            fresh: list[MatchNode] = []
            for node in last.chain():
                if id(node) in seen:
                    break
                seen.add(id(node))
                fresh.append(node)
            found += fresh[::-1]
        return found


def stored(
    keys: Sequence[pa.Array], alive: Sequence[FrozenKey], kept: MatchedRows, max_parallelism: int
) -> pa.Table:
    """Return the table of these keys. The function is pure."""
    events: list[int] = []
    lengths: list[int] = []
    nodes, partials, found = [], [], []
    for each in alive:
        chain = each.nodes()
        numbers = sorted({node.event for node in chain})
        event_at = {number: place for place, number in enumerate(numbers)}
        node_at = {id(node): place for place, node in enumerate(chain)}
        events += numbers
        lengths.append(len(numbers))
        nodes.append(
            [
                (n.position, event_at[n.event], -1 if n.before is None else node_at[id(n.before)])
                for n in chain
            ]
        )
        partials.append([(node_at[id(p.node)], [e.number for e in p.open]) for p in each.partials])
        found.append([node_at[id(f.node)] for f in each.found])
    rows = kept.take(np.array(events, np.int64), kept.schema.names)
    offsets = pa.array([0, *accumulate(lengths)], pa.int32())
    structs = pa.StructArray.from_arrays(rows.columns, fields=list(kept.schema))
    groups = np.zeros(0, np.uint16)
    if alive:
        groups = groups_of_columns(keys, max_parallelism)
    columns = {
        GROUP: pa.array(groups, pa.uint16()),
        **{f"{_KEY}{number}": column for number, column in enumerate(keys)},
        _EVENTS: pa.ListArray.from_arrays(offsets, structs),
        _NODES: pa.array([[_named(_NODE, n) for n in each] for each in nodes], pa.list_(_NODE)),
        _PARTIALS: pa.array([[_named(_PARTIAL, p) for p in e] for e in partials], pa.list_(_PARTIAL)),
        _FOUND: pa.array(found, pa.list_(pa.int32())),
    }
    return pa.table(columns).take(pa.array(np.argsort(groups, kind="stable")))


def _named(kind: pa.StructType, values: Sequence[object]) -> dict[str, object]:
    return {field.name: value for field, value in zip(kind, values, strict=True)}


def restored(
    tables: Iterable[pa.Table],
    keys: KeyIndex,
    kept: MatchedRows,
    automaton: Automaton,
    first_event: int,
) -> tuple[Mapping[int, LiveMatches], int]:
    """Return the live matches by slot, and the next row number. Add keys to `keys`, and rows to
    `kept`."""
    whole = [table.combine_chunks() for table in tables]
    latest: dict[int, tuple[int, int]] = {}
    columns = len(keys.columns())
    for at, table in enumerate(whole):
        if table.num_rows:
            arrays = [table.column(f"{_KEY}{number}").combine_chunks() for number in range(columns)]
            for row, slot in enumerate(keys.lookup_or_add(arrays).tolist()):
                latest[slot] = (at, row)
    alive: dict[int, LiveMatches] = {}
    for at, table in enumerate(whole):
        slots = [slot for slot, (of, _) in latest.items() if of == at]
        if not slots:
            continue
        rows = table.take(pa.array([latest[slot][1] for slot in slots]))
        events = rows.column(_EVENTS).combine_chunks()
        flat = events.flatten()
        taken = pa.table(flat.flatten(), names=[field.name for field in flat.type])
        taken = fitted(taken, kept.schema, "rows of partial matches")
        stamps = taken.column(TS).to_numpy().tolist()
        count = taken.num_rows
        if count:
            [batch] = taken.combine_chunks().to_batches()
            kept.add(np.arange(first_event, first_event + count), batch)
        starts = [0, *accumulate(events.value_lengths().to_pylist())]
        lists = (rows.column(name).to_pylist() for name in (_NODES, _PARTIALS, _FOUND))
        for slot, start, nodes, partials, found in zip(slots, starts, *lists, strict=False):
            read = _Reader(automaton, first_event + start, stamps[start:], nodes)
            of_key = read.alive(partials, found)
            if of_key:
                alive[slot] = of_key
        first_event += count
    return alive, first_event


class _Reader:
    """Reads the stored lists of one key, and validates every index in them."""

    def __init__(
        self,
        automaton: Automaton,
        first_event: int,
        stamps: Sequence[int],
        stored_nodes: Sequence[Mapping[str, int]],
    ) -> None:
        self._automaton = automaton
        self._nodes: list[MatchNode] = []
        self._roots: list[int] = []
        """For each node, the index of the first row of its chain."""
        self._first_event = first_event
        self._stamps = stamps
        for stored_node in stored_nodes:
            position, event, before = (stored_node[name] for name in ("position", "event", "before"))
            if not (
                0 <= position < len(automaton.positions)
                and 0 <= event < len(stamps)
                and -1 <= before < len(self._nodes)
            ):
                raise _unreadable()
            earlier = self._nodes[before] if before >= 0 else None
            self._nodes.append(MatchNode(position, first_event + event, earlier))
            self._roots.append(event if before < 0 else self._roots[before])

    def alive(self, partials: Iterable[Mapping[str, object]], found: Iterable[int]) -> LiveMatches:
        return LiveMatches(list(map(self._partial, partials)), list(map(self._read_match, found)))

    def _partial(self, stored_partial: Mapping[str, object]) -> Partial:
        place, numbers = stored_partial["node"], stored_partial["open"]
        assert isinstance(place, int)
        assert isinstance(numbers, list)
        node = self._node(place)
        if not all(0 <= number < len(self._automaton.edges) for number in numbers):
            raise _unreadable()
        edges = tuple(self._automaton.edges[number] for number in numbers)
        wakes = 0
        for edge in edges:
            wakes |= edge.wakes
        root = self._roots[place]
        return Partial(node, edges, wakes, self._first_event + root, self._stamps[root])

    def _read_match(self, place: int) -> WholeMatch:
        return WholeMatch(self._node(place), self._first_event + self._roots[place])

    def _node(self, place: int) -> MatchNode:
        if not 0 <= place < len(self._nodes):
            raise _unreadable()
        return self._nodes[place]


def _unreadable() -> CheckpointError:
    return CheckpointError(
        "the restored partial matches belong to another pattern",
        hint="restore the old pattern, or change the operator's uid to start it empty",
    )
