"""An operator with two ports by the same key: it counts the rows of each side per key.

Its sides have different columns, and name their keys differently.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl
import pyarrow as pa

import rheos as rh
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import OperatorContext, OperatorSpec, Out, PortType
from rheos.core.operators.keyed_state import KeyedStateOperator, declared_shape, make_backend
from rheos.core.operators.records import HiddenColumns, with_hidden
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.shapes import StateShape
from rheos.core.state.keys import KeyCodec
from rheos.core.state.kinds import handle_of
from rheos.core.state.scope import KeyScope
from tests.ports import connected
from tests.worlds import programs
from tests.worlds.programs import Arrived, CheckedProgram, Outputs, same

SIDES = ("left", "right")


@dataclass(frozen=True)
class PairedSpec(OperatorSpec):
    kind: ClassVar[str] = "paired"

    def operator(self, ctx: OperatorContext) -> Paired:
        return Paired(ctx)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        declared = (Paired.left, Paired.right)
        return {state.name: declared_shape(ports[0], state) for state in declared}


class Paired(KeyedStateOperator):
    left: Any = rh.ValueState(int, default=0)
    right: Any = rh.ValueState(int, default=0)

    def __init__(self, ctx: OperatorContext) -> None:
        super().__init__(ctx)
        self._codecs = [KeyCodec(port.schema, port.keys, port.keyed_at) for port in ctx.ports]
        self._scope = KeyScope(ctx.clock)
        self.backend = make_backend(ctx, self._codecs[0], self._scope)
        self._sides = [handle_of(state, self.backend) for state in (Paired.left, Paired.right)]

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        keys = self._codecs[port].of(batch)
        counts: list[list[int]] = [[], []]
        for first in range(0, len(keys), self.backend.stride):
            some = keys[first : first + self.backend.stride]
            self.backend.prepare(some)
            for self._scope.key in some:
                self._sides[port].value += 1
                for side, counted in zip(self._sides, counts, strict=True):
                    counted.append(side.value)
        output = self.ctx.outputs[MAIN]
        shown = pa.RecordBatch.from_arrays(
            [
                pa.array(keys, pa.int64()),
                *(batch.column(name) for name in ("i", "v", "at")),
                pa.array([SIDES[port]] * len(keys)),
                *(pa.array(counted, pa.int64()) for counted in counts),
            ],
            schema=output.type.schema,
        )
        yield Out(with_hidden(shown, output.schema, HiddenColumns.of(batch)))


def pair(
    left: rh.KeyedStream, right: rh.KeyedStream, of: rh.DataStream, *, event_time: bool = True
) -> rh.DataStream:
    fields = [("k", pa.int64()), *((name, of.schema.field(name).type) for name in ("i", "v", "at"))]
    counts = [("side", pa.string()), *((side, pa.int64()) for side in SIDES)]
    return connected(
        PairedSpec(),
        of,
        left._port,
        right._port,
        schema=pa.schema([*fields, *counts]),
        event_time=event_time,
    )


def is_left(i: int) -> bool:
    return i % 3 > 0


def paired(rows: rh.DataStream) -> rh.DataStream:
    left = rows.filter(pl.col("i") % 3 > 0).key_by("k")
    right = rows.filter(pl.col("i") % 3 == 0).select(
        "at",
        "v",
        "i",
        much=pl.lit("much text") + pl.col("i").cast(pl.String),
        user=pl.col("k").cast(pl.Int16),
    )
    return pair(left, right.key_by("user"), rows)


_WINDOWS = programs.windows(100, 100, 0)


def _build(rows: rh.DataStream) -> Mapping[str, rh.DataStream]:
    pairs = paired(rows)
    return {"pairs": pairs, **_WINDOWS.build(pairs)}


def _check_pairs(rows: list[Arrived], outputs: Outputs) -> None:
    wanted = [(row.k, row.i, row.v, SIDES[not is_left(row.i)]) for row in rows]
    same(((o["k"], o["i"], o["v"], o["side"]) for o in outputs["pairs"]), wanted, "rows")
    of_key: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for out in outputs["pairs"]:
        of_key[out["k"]].append(out)
    for key, outs in of_key.items():
        # The two sides may be in any order, in which each row counts exactly once.
        counts = dict.fromkeys(SIDES, 0)
        for out in sorted(outs, key=lambda out: int(out["left"] + out["right"])):
            counts[out["side"]] += 1
            assert {side: out[side] for side in SIDES} == counts, f"key {key}: {out}, not {counts}"


def _check(rows: list[Arrived], outputs: Outputs) -> None:
    _check_pairs(rows, outputs)
    _WINDOWS.check(rows, outputs)


def _check_idle(rows: list[Arrived], outputs: Outputs) -> None:
    _check_pairs(rows, outputs)
    assert _WINDOWS.check_idle is not None
    _WINDOWS.check_idle(rows, outputs)


PAIRED = CheckedProgram("paired", _build, _check, _check_idle)
