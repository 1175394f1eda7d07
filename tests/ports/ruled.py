"""A keyed port and a broadcast one: rows are counted by key, and every subtask knows all rules.

When its input has ended, each subtask emits the rules that it knows: each rule, and how often it
arrived.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl
import pyarrow as pa

import rheos as rh
from rheos.core.graph.nodes import Input
from rheos.core.operators.contract import OperatorContext, OperatorSpec, Out, PortType, Restored
from rheos.core.operators.keyed_state import KeyedStateOperator, declared_shape, make_backend
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.shapes import StatePurpose, StateShape, TypeShape
from rheos.core.protocol.snapshots import Snapshot, SnapshotPart, StateKind
from rheos.core.state.keys import KeyCodec
from rheos.core.state.kinds import handle_of
from rheos.core.state.scope import KeyScope
from tests.ports import connected
from tests.worlds.programs import Arrived, CheckedProgram, Outputs, same

ROWS, RULES = 0, 1
"""The ports."""

_TOLD = -1
"""Stands among the rules once they have been told."""

_SCHEMA = pa.schema(
    [(name, pa.int64()) for name in ("k", "i", "n", "known", "most", "attempt", "subtask")]
)


@dataclass(frozen=True)
class RuledSpec(OperatorSpec):
    kind: ClassVar[str] = "ruled"

    def operator(self, ctx: OperatorContext) -> Ruled:
        return Ruled(ctx)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        rules = StateShape(
            kind=StateKind.BROADCAST, holds=StatePurpose.ROWS, value=TypeShape(name="rules")
        )
        return {"n": declared_shape(ports[ROWS], Ruled.n), "rules": rules}


class Ruled(KeyedStateOperator):
    n: Any = rh.ValueState(int, default=0)

    def __init__(self, ctx: OperatorContext) -> None:
        super().__init__(ctx)
        port = ctx.ports[ROWS]
        self._codec = KeyCodec(port.schema, port.keys, port.keyed_at)
        self._scope = KeyScope(ctx.clock)
        self.backend = make_backend(ctx, self._codec, self._scope)
        self._n = handle_of(Ruled.n, self.backend)
        self._rules: Counter[int] = Counter()

    def open(self, restored: Restored) -> None:
        own = {name: tables for name, tables in restored.items() if name != "rules"}
        super().open(own)
        for table in restored.get("rules", ()):
            self._rules.update({row["rule"]: row["times"] for row in table.to_pylist()})

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        numbers = batch.column("i").to_pylist()
        if port == RULES:
            self._rules.update(numbers)
            return
        keys = self._codec.of(batch)
        known, most = len(self._rules), max(self._rules.values(), default=0)
        counts = []
        self.backend.prepare(keys)
        for self._scope.key in keys:
            self._n.value += 1
            counts.append(self._n.value)
        yield self._out(keys, numbers, counts, known, most)

    def on_end(self) -> Iterator[Out]:
        if _TOLD not in self._rules:
            told = sorted(self._rules.items())
            self._rules[_TOLD] = 1
            numbers, times = ([each[part] for each in told] for part in (0, 1))
            yield self._out([-1] * len(told), numbers, times, 0, 0)

    def _out(self, keys: list[int], numbers: list[int], n: list[int], known: int, most: int) -> Out:
        same_for_all = (known, most, int(self.ctx.attempt), self.ctx.subtask)
        columns = [keys, numbers, n, *([value] * len(keys) for value in same_for_all)]
        return Out(
            pa.RecordBatch.from_arrays([pa.array(c, pa.int64()) for c in columns], schema=_SCHEMA)
        )

    def _part(self) -> SnapshotPart:
        rules = dict(self._rules)
        table = pa.table(
            {"rule": pa.array(rules, pa.int64()), "times": pa.array(rules.values(), pa.int64())}
        )
        return SnapshotPart("rules", StateKind.BROADCAST, lambda: table)

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        snapshot = super().snapshot(checkpoint)
        snapshot.parts.append(self._part())
        return snapshot

    def savepoint(self, snapshot: Snapshot) -> list[SnapshotPart]:
        return [*super().savepoint(snapshot), self._part()]


def rule(rows: rh.KeyedStream, rules: rh.DataStream) -> rh.DataStream:
    broadcast = Input(rules._port.node, rules._port.tag, broadcast=True)
    return connected(RuledSpec(), rules, rows._port, broadcast, schema=_SCHEMA, event_time=False)


def is_rule(i: int) -> bool:
    return i % 5 == 0


def _build(rows: rh.DataStream) -> Mapping[str, rh.DataStream]:
    rules = rows.filter(pl.col("i") % 5 == 0).select("i")
    ruled = rule(rows.filter(pl.col("i") % 5 > 0).key_by("k"), rules)
    # After another exchange its own rows wait, too.
    return {"out": ruled.key_by("k").running(row=rh.agg.count())}


def _check(rows: list[Arrived], outputs: Outputs) -> None:
    rules = [row.i for row in rows if is_rule(row.i)]
    wanted: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        if not is_rule(row.i):
            wanted[row.k].append(row.i)
    told: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    got: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for out in outputs["out"]:
        if out["k"] < 0:
            told[out["attempt"], out["subtask"]].append((out["i"], out["n"]))
        else:
            got[out["k"]].append(out)
    assert got.keys() == wanted.keys()
    for key, outs in got.items():
        same((out["i"] for out in outs), wanted[key], f"rows of key {key}")
        same((out["n"] for out in outs), range(1, len(outs) + 1), f"counts of key {key}")
        assert max(out["most"] for out in outs) <= 1, "a rule came twice"
    if rules:
        assert told, "somebody has ended"
    for (attempt, subtask), of_subtask in told.items():
        once = [(number, 1) for number in rules]
        same(of_subtask, once, f"rules that subtask {subtask} knows in attempt {attempt}")


RULED = CheckedProgram("ruled", _build, _check, _check)
