"""Running aggregates compared with a loop, over any batches, snapshots and other parallelisms."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core import aggregates as agg
from rheos.core.aggregates import Agg
from rheos.core.errors import InputError, UnrestorableError
from rheos.core.operators import running_state
from rheos.core.operators.running import STATE, RunningOperator, RunningSpec, running_schema
from rheos.core.protocol.elements import TS, visible
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.snapshots import PartMode, SnapshotPart
from rheos.core.state.key_groups import key_groups, subtask_of
from tests.core.operators.contexts import context
from tests.core.state.own_chain import OwnChain

SCHEMA = pa.schema(
    [("k", pa.int64()), ("v", pa.float64()), ("n", pa.int32()), ("s", pa.string()), (TS, pa.int64())]
)
AGGREGATES = {
    "rows": agg.count(),
    "values": agg.count("v"),
    "total": agg.sum("v"),
    "whole": agg.sum("n"),
    "least": agg.min("v"),
    "most": agg.max("n"),
    "first": agg.min("s"),
    "last": agg.max("s"),
    "mean": agg.mean("n"),
}


def operator(
    schema: pa.Schema = SCHEMA,
    aggregates: dict[str, Agg] | None = None,
    keys: tuple[str, ...] = ("k",),
    **more: Any,
) -> RunningOperator:
    aggregates = AGGREGATES if aggregates is None else aggregates
    hidden = [field for field in schema if field.name == TS]
    output = pa.schema([*running_schema(visible(schema), aggregates), *hidden])
    return RunningOperator(context(schema, output, keys=keys, **more), RunningSpec(aggregates))


def written(part: SnapshotPart) -> pa.Table:
    """Return the table of a part that is small enough for one."""
    table = part.write()
    assert isinstance(table, pa.Table)
    return table


def run(op: RunningOperator, batches: Sequence[pa.RecordBatch]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in batches:
        for out in op.on_batch(0, batch):
            out.batch.validate(full=True)
            rows += out.batch.to_pylist()
    return rows


def expected(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    seen: dict[int, list[dict[str, Any]]] = {}
    result = []
    for row in rows:
        past = seen.setdefault(row["k"], [])
        past.append(row)
        values = {name: [r[name] for r in past if r[name] is not None] for name in ("v", "n", "s")}
        result.append(
            {key: value for key, value in row.items() if key != TS}
            | {
                "rows": len(past),
                "values": len(values["v"]),
                "total": sum(values["v"]) if values["v"] else None,
                "whole": sum(values["n"]) if values["n"] else None,
                "least": min(values["v"], default=None),
                "most": max(values["n"], default=None),
                "first": min(values["s"], default=None),
                "last": max(values["s"], default=None),
                "mean": sum(values["n"]) / len(values["n"]) if values["n"] else None,
                TS: row[TS],
            }
        )
    return result


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.integers(-3, 3),
            "v": st.none() | st.integers(-9, 9).map(lambda n: n / 8),
            "n": st.none() | st.integers(-(2**31), 2**31 - 1),
            "s": st.none() | st.text("abc", max_size=3),
            TS: st.integers(0, 100),
        }
    ),
    max_size=40,
)


def cut(rows: list[dict[str, Any]], sizes: list[int]) -> list[pa.RecordBatch]:
    batches, at = [], 0
    for size in [*sizes, len(rows)]:
        batches.append(pa.RecordBatch.from_pylist(rows[at : at + size], SCHEMA))
        at += size
    return batches


@given(ROWS, st.lists(st.integers(0, 12), max_size=5))
def test_every_row_leaves_with_the_values_of_a_loop(
    rows: list[dict[str, Any]], sizes: list[int]
) -> None:
    assert run(operator(), cut(rows, sizes)) == expected(rows)


ANY_FLOAT = st.floats() | st.sampled_from([0.0, -0.0, 0.1, 1e308, math.inf, -math.inf, math.nan])
NEAR_THE_END = st.sampled_from([2**62, 2**63 - 1, -(2**62), -(2**63)])


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3), ANY_FLOAT, st.integers(-9, 9) | NEAR_THE_END, st.integers(0, 2**16)
        ),
        min_size=30,
        max_size=50,
    ),
    st.integers(1, 16),
    st.sampled_from([pa.int64(), pa.uint64()]),
)
def test_small_batches_have_bit_identical_results(
    rows: list[tuple[int, float, int, int]], few: int, whole: pa.DataType
) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.float64()), ("n", whole), ("small", pa.float32())])
    numbers = [n if whole == pa.int64() else abs(n) for _, _, n, _ in rows]
    columns = [[row[0] for row in rows], [row[1] for row in rows], numbers, [row[3] for row in rows]]
    arrays = [pa.array(each, field.type) for each, field in zip(columns, schema, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    aggregates: dict[str, Agg] = {
        "rows": agg.count(),
        "total": agg.sum("v"),
        "of small": agg.sum("small"),
        "whole": agg.sum("n"),
        "mean": agg.mean("v"),
        "of whole": agg.mean("n"),
        "least": agg.min("v"),
    }

    def outcome(
        pieces: Sequence[pa.RecordBatch], *, one_by_one: bool
    ) -> tuple[list[bytes], str | None]:
        """Return the rows up to an error, and the record that it names."""
        op = operator(schema, aggregates)
        made: list[pa.RecordBatch] = []
        with patch.object(running_state, "ONE_BY_ONE_ROWS", len(rows) if one_by_one else 0):
            try:
                for piece in pieces:
                    made += [out.batch for out in op.on_batch(0, piece)]
            except InputError as error:
                return bits(made), error.record
        (part,) = op.snapshot(CheckpointId(1)).parts
        return [*bits(made), *bits(written(part).sort_by("key.k").to_batches())], None

    def bits(batches: Sequence[pa.RecordBatch]) -> list[bytes]:
        columns = zip(*(batch.columns for batch in batches), strict=True)
        return [np.concatenate([c.to_numpy(False) for c in column]).tobytes() for column in columns]

    cut_up = [batch.slice(at, few) for at in range(0, len(rows), few)]
    slowly, its_record = outcome(cut_up, one_by_one=True)
    at_once, record = outcome([batch], one_by_one=False)
    assert its_record == record
    if record is None:
        assert slowly == at_once


class Chains:
    """Chains that the subtasks of an operator have written: for each, a full part and the deltas
    since."""

    def __init__(self) -> None:
        self.tables: dict[int, list[pa.Table]] = {}

    def take(self, ops: Sequence[RunningOperator], *, kept: bool = True) -> list[PartMode]:
        """Take a checkpoint of all subtasks; if it is not kept, they are notified."""
        modes = []
        for op in ops:
            (part,) = op.snapshot(CheckpointId(1)).parts
            assert part.state == STATE
            modes.append(part.mode)
            if not kept:
                op.snapshot_failed(CheckpointId(1))
                continue
            chain = self.tables.setdefault(op.ctx.subtask, [])
            if part.mode is PartMode.FULL:
                chain.clear()
            chain.append(written(part))
            groups = chain[-1].column("key_group").to_pylist()
            assert groups == sorted(groups)
        return modes

    def restore(self, **more: Any) -> RunningOperator:
        """Return an operator that was restored with its key groups from the parts of others."""
        return opened(operator(**more), [table for chain in self.tables.values() for table in chain])


def opened(op: RunningOperator, tables: Sequence[pa.Table]) -> RunningOperator:
    owned = pa.array(list(op.ctx.key_groups), pa.uint16())
    op.open({STATE: [table.filter(pc.is_in(table.column("key_group"), owned)) for table in tables]})
    return op


def split(rows: list[dict[str, Any]], parallelism: int) -> list[list[pa.RecordBatch]]:
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
    owners = subtask_of(key_groups(batch, ["k"], 128), parallelism, 128).tolist()
    return [
        [batch.filter(pa.array([owner == subtask for owner in owners], pa.bool_()))]
        for subtask in range(parallelism)
    ]


def by_content(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


@given(
    st.lists(st.tuples(ROWS, st.booleans()), max_size=6),
    ROWS,
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_a_restored_operator_continues_at_another_parallelism(
    before: list[tuple[list[dict[str, Any]], bool]], after: list[dict[str, Any]], p: int, q: int
) -> None:
    ops = [operator(subtask=i, parallelism=p) for i in range(p)]
    chains = Chains()
    past: list[dict[str, Any]] = []
    for rows, kept in [*before, ([], True)]:
        for op, batches in zip(ops, split(rows, p), strict=True):
            run(op, batches)
        past += rows
        chains.take(ops, kept=kept)
    ops = [chains.restore(subtask=i, parallelism=q) for i in range(q)]
    # What was restored is written again whole.
    chains = Chains()
    assert chains.take(ops) == [PartMode.FULL] * q
    ops = [chains.restore(subtask=i, parallelism=q) for i in range(q)]
    came = [row for op, b in zip(ops, split(after, q), strict=True) for row in run(op, b)]
    assert by_content(came) == by_content(expected(past + after)[len(past) :])


def test_a_delta_has_the_keys_that_changed() -> None:
    op, chains = operator(), Chains()
    row = {"v": 1.0, "n": 2, "s": "b", TS: 0}
    run(op, cut([row | {"k": k} for k in range(10_000)], []))
    assert chains.take([op]) == [PartMode.FULL]
    for changed in ([7, 4711, 7], [], [10_000, 7]):
        run(op, cut([row | {"k": k} for k in changed], []))
        assert chains.take([op]) == [PartMode.DELTA]
        delta = chains.tables[0][-1]
        assert sorted(delta.column("key.k").to_pylist()) == sorted(set(changed))
    assert 500 * chains.tables[0][1].nbytes < chains.tables[0][0].nbytes

    row = row | {"k": 7}
    assert run(chains.restore(), cut([row], []))[0]["rows"] == 5
    del chains.tables[0][3]
    assert run(chains.restore(), cut([row], []))[0]["rows"] == 4, "a delta that is lost shows"


def test_a_full_snapshot_follows_when_deltas_are_as_long() -> None:
    op, chains = operator(), Chains()
    row = {"v": 1.0, "n": 2, "s": "b", TS: 0}
    run(op, cut([row | {"k": k} for k in range(10)], []))
    modes = chains.take([op])
    for _ in range(4):
        run(op, cut([row | {"k": k} for k in range(4)], []))
        modes += chains.take([op])
    full, delta = PartMode.FULL, PartMode.DELTA
    assert modes == [full, delta, delta, full, delta]


def with_own_chain(chains: Chains, op: RunningOperator) -> RunningOperator:
    op.open({STATE: OwnChain(chains.tables[op.ctx.subtask])})
    return op


def test_a_restored_chain_is_continued_until_its_deltas_are_as_long() -> None:
    op, chains = operator(), Chains()
    row = {"v": 1.0, "n": 2, "s": "b", TS: 0}
    run(op, cut([row | {"k": k} for k in range(10)], []))
    chains.take([op])
    run(op, cut([row | {"k": k} for k in range(4)], []))
    chains.take([op])
    modes = []
    for _ in range(2):
        op = with_own_chain(chains, operator())
        run(op, cut([row | {"k": k} for k in range(3)], []))
        modes += chains.take([op])
    assert modes == [PartMode.DELTA, PartMode.FULL]
    came = run(chains.restore(), cut([row | {"k": k} for k in (0, 3, 9)], []))
    assert [each["rows"] for each in came] == [5, 3, 2]


def test_a_chain_with_a_new_aggregate_is_continued_but_not_one_without_a_former_one() -> None:
    fewer = {name: of for name, of in AGGREGATES.items() if name != "total"}
    row = {"k": 1, "v": 1.0, "n": 2, "s": "b", TS: 0}
    for before, after, mode in [
        (fewer, AGGREGATES, PartMode.DELTA),
        (AGGREGATES, fewer, PartMode.FULL),
    ]:
        op, chains = operator(aggregates=before), Chains()
        run(op, cut([row | {"k": k} for k in range(10)], []))
        chains.take([op])
        op = with_own_chain(chains, operator(aggregates=after))
        run(op, cut([row], []))
        assert chains.take([op]) == [mode]
        came = run(chains.restore(aggregates=after), cut([row, row | {"k": 2}], []))
        assert [each["rows"] for each in came] == [3, 2]


def test_a_discarded_snapshot_is_followed_by_a_full_one() -> None:
    op, chains = operator(), Chains()
    row = {"k": 1, "v": 1.0, "n": 2, "s": "b", TS: 0}
    run(op, cut([row | {"k": k} for k in range(10)], []))
    chains.take([op])
    run(op, cut([row], []))
    assert chains.take([op], kept=False) == [PartMode.DELTA]
    assert chains.take([op]) == [PartMode.FULL]
    assert run(chains.restore(), cut([row], []))[0]["rows"] == 3


def test_a_savepoint_is_complete_and_changes_nothing() -> None:
    ops, chains = [operator(), operator()], Chains()
    row = {"v": 1.0, "n": 2, "s": "b", TS: 0}
    for op in ops:
        run(op, cut([row | {"k": k} for k in range(10)], []))
        chains.take([op])
        run(op, cut([row | {"k": 3}], []))
    (plain,) = ops[0].snapshot(CheckpointId(2)).parts
    snapshot = ops[1].snapshot(CheckpointId(2))
    (part,) = ops[1].savepoint(snapshot)
    run(ops[1], cut([row | {"k": 3}], []))
    assert (part.mode, snapshot.parts[0].mode) == (PartMode.FULL, PartMode.DELTA)
    assert snapshot.parts[0].write() == plain.write()
    table = written(part)
    assert table.num_rows == 10
    assert run(opened(operator(), [table]), cut([row | {"k": 3}], []))[0]["rows"] == 3
    run(ops[0], cut([row | {"k": 3}], []))
    (plain,) = ops[0].snapshot(CheckpointId(3)).parts
    (after,) = ops[1].snapshot(CheckpointId(3)).parts
    assert after.mode is PartMode.DELTA
    assert after.write() == plain.write()


def test_large_state_is_written_in_several_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_state, "PIECE_ROWS", 4)
    op = operator()
    row = {"v": 1.0, "n": 2, "s": "b", TS: 0}
    run(op, cut([row | {"k": k} for k in range(10)], []))
    (part,) = op.snapshot(CheckpointId(1)).parts
    run(op, cut([row | {"k": 3}], []))
    tables = list(part.write())
    assert [table.num_rows for table in tables] == [4, 4, 2]
    for table in tables:
        groups = table.column("key_group").to_pylist()
        assert groups == sorted(groups)
    assert list(part.write()) == tables, "a savepoint at the same barrier writes it again"
    again = run(opened(operator(), tables), cut([row | {"k": k} for k in range(10)], []))
    assert [each["rows"] for each in again] == [2] * 10


def test_later_rows_do_not_change_a_snapshot() -> None:
    op = operator()
    row = {"k": 1, "v": 1.0, "n": 2, "s": "b", TS: 0}
    run(op, cut([row], []))
    part = op.snapshot(CheckpointId(1)).parts[0]
    run(op, cut([row | {"s": "a"}, row | {"k": 2}], []))
    table = written(part)
    assert table.num_rows == 1
    assert table.column("agg.rows.count").to_pylist() == [1]
    assert table.column("agg.first.best").to_pylist() == ["b"]


@pytest.mark.parametrize(
    ("kind", "values", "least", "most"),
    [
        (pa.float64(), [2.0, math.nan, 1.0], [2.0, 2.0, 1.0], [2.0, math.nan, math.nan]),
        (pa.float32(), [-0.5, None, 1.5], [-0.5, -0.5, -0.5], [-0.5, -0.5, 1.5]),
        (pa.uint64(), [2**64 - 1, 0], [2**64 - 1, 0], [2**64 - 1] * 2),
        (pa.int8(), [None, -128, 127], [None, -128, -128], [None, -128, 127]),
        (pa.bool_(), [True, False], [True, False], [True, True]),
        (pa.date32(), [dt.date(2020, 1, 2), dt.date(2020, 1, 1)], None, [dt.date(2020, 1, 2)] * 2),
        (pa.timestamp("us"), [dt.datetime(2020, 1, 2)] * 2, None, None),
        (pa.decimal128(5, 1), [Decimal("1.5"), Decimal("-2.0")], None, [Decimal("1.5")] * 2),
        (pa.string_view(), ["b", "a"], None, ["b", "b"]),
        (pa.dictionary(pa.int8(), pa.string()), ["b", "a"], None, ["b", "b"]),
        (pa.binary(), [b"b", b"\xff"], [b"b", b"b"], [b"b", b"\xff"]),
    ],
)
def test_minimum_and_maximum_keep_the_type(
    kind: pa.DataType, values: list[Any], least: list[Any] | None, most: list[Any] | None
) -> None:
    schema = pa.schema([("k", pa.string()), ("v", kind)])
    op = operator(schema, {"least": agg.min("v"), "most": agg.max("v")})
    batch = pa.record_batch([pa.array(["x"] * len(values)), pa.array(values, kind)], schema=schema)
    rows = run(op, [batch.slice(i, 1) for i in range(len(values))])
    assert repr([row["least"] for row in rows]) == repr(values if least is None else least)
    assert repr([row["most"] for row in rows]) == repr(values if most is None else most)
    whole = run(operator(schema, {"least": agg.min("v"), "most": agg.max("v")}), [batch])
    assert repr(whole) == repr(rows)


def test_an_aggregate_may_replace_a_column() -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("w", pa.int64()), (TS, pa.int64())])
    op = operator(schema, {"v": agg.sum("v")})
    rows = run(op, [pa.RecordBatch.from_pylist([{"k": 1, "v": 2, "w": 3, TS: 4}] * 2, schema)])
    assert [list(row.items()) for row in rows] == [
        [("k", 1), ("w", 3), ("v", 2), (TS, 4)],
        [("k", 1), ("w", 3), ("v", 4), (TS, 4)],
    ]


def test_a_null_key_names_column_and_record() -> None:
    row = {"k": None, "v": 1.0, "n": 2, "s": "b", TS: 0}
    with pytest.raises(InputError, match="the key column 'k' is null") as caught:
        run(operator(), cut([row], []))
    assert caught.value.record is not None
    assert "'s': 'b'" in caught.value.record


def test_changed_programs_resume_from_old_state() -> None:
    old = operator(aggregates={"rows": agg.count(), "a": agg.sum("v")})
    run(old, cut([{"k": 1, "v": 1.5, "n": 2, "s": "b", TS: 0}], []))
    table = written(old.snapshot(CheckpointId(1)).parts[0])
    row = {"k": 1, "v": 1.0, "n": 2, "s": "b", TS: 0}

    more = operator(aggregates={"a": agg.sum("v"), "a.b": agg.count()})
    more.open({STATE: [table]})
    assert run(more, cut([row], []))[0]["a"] == 2.5
    assert run(more, cut([row], []))[0]["a.b"] == 2

    with pytest.raises(UnrestorableError, match="'a' was another aggregate"):
        operator(aggregates={"a": agg.mean("v")}).open({STATE: [table]})
    with pytest.raises(UnrestorableError, match="not keyed by 's'"):
        operator(keys=("s",)).open({STATE: [table]})
