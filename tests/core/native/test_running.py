"""Native running aggregates compared with their Python form: outputs, state and snapshots."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rheos.core import aggregates as agg
from rheos.core.errors import InputError
from rheos.core.native.library import Kernels
from rheos.core.native.running import NativeRunning
from rheos.core.operators.running import RunningOperator, RunningSpec, running_schema
from rheos.core.protocol.elements import TS, visible
from rheos.core.protocol.ids import CheckpointId
from tests.core.native.test_cutting import used
from tests.core.operators.contexts import context

TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int64": (pa.int64(), st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1)),
    "uint8": (pa.uint8(), st.integers(0, 255)),
    "uint32": (pa.uint32(), st.integers(0, 2**32 - 1)),
    "uint64": (pa.uint64(), st.integers(0, 9) | st.integers(0, 2**64 - 1)),
    "float32": (pa.float32(), st.floats(width=32)),
    "float64": (pa.float64(), st.floats()),
    "bool": (pa.bool_(), st.booleans()),
    "string": (pa.string(), st.text(max_size=3)),
}
KEYS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "few": (pa.int64(), st.integers(0, 5)),
    "spread": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "small": (pa.uint8(), st.integers(0, 255)),
    "float": (pa.float64(), st.sampled_from([0.0, -0.0, float("nan"), 2.5])),
    "date": (pa.date32(), st.dates()),
    "string": (pa.string(), st.sampled_from(["", "a", "b", "c" * 20])),
    "bool": (pa.bool_(), st.booleans()),
}


@st.composite
def streams(draw: st.DrawFn) -> tuple[pa.Schema, tuple[str, ...], dict[str, Any], list[pa.RecordBatch]]:
    """Draw the keys, the aggregates, and some batches of a stream."""
    key, value = draw(st.sampled_from(list(KEYS))), draw(st.sampled_from(list(TYPES)))
    kinds = {"k": KEYS[key], "v": TYPES[value], "w": TYPES["float64"]}
    schema = pa.schema([*((name, kind) for name, (kind, _) in kinds.items()), (TS, pa.int64())])
    makers = {
        "rows": lambda: agg.count(),
        "values": lambda: agg.count("v"),
        "others": lambda: agg.sum("w"),
        "least": lambda: agg.min("v"),
        "most": lambda: agg.max("v"),
    }
    if value not in ("bool", "string"):
        makers |= {"total": lambda: agg.sum("v"), "mean": lambda: agg.mean("v")}
    names = draw(st.lists(st.sampled_from(list(makers)), min_size=1, max_size=4, unique=True))
    keys = draw(st.sampled_from([("k",), ("k", "w")])) if key == "few" else ("k",)
    batches = []
    for _ in range(draw(st.integers(1, 5))):
        rows = draw(st.integers(0, 12) | st.just(120))
        with_nulls = draw(st.integers(0, 3)) == 0
        columns = []
        for name, (kind, values) in kinds.items():
            each = st.none() | values if with_nulls and name == "v" else values
            given_rows = draw(st.lists(each, min_size=min(rows, 12), max_size=min(rows, 12)))
            columns.append(pa.array((given_rows * 10)[:rows], kind))
        columns.append(pa.array(range(rows), pa.int64()))
        batches.append(pa.record_batch(columns, schema=schema))
    return schema, keys, {name: makers[name]() for name in names}, batches


def results(
    schema: pa.Schema, keys: tuple[str, ...], aggregates: dict[str, Any], batches: list[pa.RecordBatch]
) -> list[Any]:
    """Return all that can be observed: output rows, snapshots of changed keys, and the error."""
    output = pa.schema([*running_schema(visible(schema), aggregates), schema.field(TS)])
    operator = RunningOperator(context(schema, output, keys=keys), RunningSpec(aggregates))
    seen: list[Any] = []
    try:
        for number, batch in enumerate(batches):
            for out in operator.on_batch(0, batch):
                out.batch.validate(full=True)
                assert out.batch.schema.equals(output)
                seen.append([repr(row) for row in out.batch.to_pylist()])
            if number % 2:
                seen.append(_stored(operator, number))
        seen.append(_stored(operator, len(batches)))
    except InputError as error:
        seen.append(str(error))
    return seen


def _stored(operator: RunningOperator, number: int) -> list[Any]:
    found = []
    for part in operator.snapshot(CheckpointId(number + 1)).parts:
        table = part.write()
        tables = [table] if isinstance(table, pa.Table) else list(table)
        found.append([repr(row) for each in tables for row in each.to_pylist()])
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(streams())
def test_both_forms_aggregate_alike(kernels: Kernels, drawn: Any) -> None:
    with used(None):
        interpreted = results(*drawn)
    with used(kernels):
        assert results(*drawn) == interpreted


SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), (TS, pa.int64())])


def rows_of(keys: list[int], values: list[int | None]) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array(keys), pa.array(values, pa.int64()), pa.array(range(len(keys)))], schema=SCHEMA
    )


def test_the_forms_take_turns_on_one_state(kernels: Kernels) -> None:
    aggregates = {"n": agg.count(), "total": agg.sum("v"), "mean": agg.mean("v"), "most": agg.max("v")}
    output = pa.schema([*running_schema(visible(SCHEMA), aggregates), SCHEMA.field(TS)])
    made = []
    for forms in ((None, None, None), (kernels, None, kernels)):
        operator = RunningOperator(context(SCHEMA, output, keys=("k",)), RunningSpec(aggregates))
        for form in forms:
            with used(form):
                for batch in (rows_of([1, 2, 1], [5, None, 7]), rows_of([2, 3, 1], [1, 2, 3])):
                    made += [out.batch.to_pylist() for out in operator.on_batch(0, batch)]
    assert made[: len(made) // 2] == made[len(made) // 2 :]


@pytest.mark.usefixtures("native")
def test_a_kernel_that_refuses_a_sum_has_changed_nothing() -> None:
    aggregates = {"a": agg.sum("v"), "mean": agg.mean("v"), "n": agg.count()}
    output = pa.schema([*running_schema(visible(SCHEMA), aggregates), SCHEMA.field(TS)])
    operator = RunningOperator(context(SCHEMA, output, keys=("k",)), RunningSpec(aggregates))
    largest = 2**63 - 1
    assert len(list(operator.on_batch(0, rows_of([1, 2], [largest - 1, 4])))) == 1
    with pytest.raises(InputError, match="exceeds 64 bits"):
        list(operator.on_batch(0, rows_of([2, 1, 1], [3, 1, 1])))


@pytest.mark.usefixtures("native")
def test_known_keys_take_one_native_call() -> None:
    aggregates = {"n": agg.count(), "total": agg.sum("v")}
    output = pa.schema([*running_schema(visible(SCHEMA), aggregates), SCHEMA.field(TS)])
    operator = RunningOperator(context(SCHEMA, output, keys=("k",)), RunningSpec(aggregates))
    list(operator.on_batch(0, rows_of([1, 2], [3, 4])))
    with (
        patch.object(NativeRunning, "run", autospec=True, side_effect=NativeRunning.run) as calls,
        patch.object(RunningOperator, "slots_of", side_effect=AssertionError("in Python")),
    ):
        [out] = list(operator.on_batch(0, rows_of([2, 2], [1, 1])))
    assert calls.call_count == 1
    assert out.batch.column("total").to_pylist() == [5, 6]


@pytest.mark.parametrize("spread", [1, 0x5851F42D4C957F2D])
def test_new_keys_in_small_batches_outgrow_every_array(kernels: Kernels, spread: int) -> None:
    aggregates = {"n": agg.count(), "total": agg.sum("v")}
    output = pa.schema([*running_schema(visible(SCHEMA), aggregates), SCHEMA.field(TS)])
    made = []
    for form in (None, kernels):
        operator = RunningOperator(context(SCHEMA, output, keys=("k",)), RunningSpec(aggregates))
        with used(form):
            for start in range(0, 3000, 10):
                keys = [(n * spread) % 2**63 for n in range(start, start + 10)]
                for batch in (rows_of([*keys, 0], [*range(10), 1]), rows_of(keys, [1] * 10)):
                    made += [out.batch.to_pylist() for out in operator.on_batch(0, batch)]
    assert made[: len(made) // 2] == made[len(made) // 2 :]
