"""Tables of LanceDB have the newest row of each key, also after a commit is repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.connectors.contract import Committer, SinkWriter
from rheos.core.connectors.sink_capabilities import prepared, staged_sink
from rheos.core.errors import InputError, ProgramError, RheosError, SchemaError, UnrestorableError
from rheos.core.protocol.ids import CheckpointId
from rheos.testing import Faults, check_sink, simulate
from tests.connectors.ports import sink_context

pytestmark = pytest.mark.slow  # The library takes seconds to import.
lancedb = pytest.importorskip("lancedb")

VECTORS = pa.list_(pa.float32(), 2)
SCHEMA = pa.schema({"id": pa.string(), "v": VECTORS, "gone": pa.bool_()})


def rows_of(folder: Path) -> dict[str, list[float]]:
    table = lancedb.connect(str(folder / "lake")).open_table("t").to_arrow()
    assert len({*table["id"].to_pylist()}) == table.num_rows
    return dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


class HandJob:
    def __init__(self, folder: Path) -> None:
        made = rh.lancedb.sink("t", uri=folder / "lake").of_changes(["id"], "gone")
        made.validate(SCHEMA)
        self.sink = staged_sink(prepared(made, SCHEMA, ("job", "sink")), f"{folder}/staged")
        self.checkpoint = 0
        self.writer: SinkWriter = self.sink.open(sink_context(SCHEMA, attempt=1))

    @property
    def committer(self) -> Committer:
        committer = self.sink.committer()
        assert committer is not None
        return committer

    def stage(self, *rows: tuple[str, float | None]) -> list[bytes]:
        ids = [key for key, _ in rows]
        vectors = pa.array([None if at is None else [at, 0.5] for _, at in rows], VECTORS)
        gone = [at is None for _, at in rows]
        self.writer.write(pa.record_batch([pa.array(ids), vectors, pa.array(gone)], schema=SCHEMA))
        self.checkpoint += 1
        return self.writer.prepare(CheckpointId(self.checkpoint))


def test_the_newest_row_of_each_key_is_kept_whatever_is_repeated(tmp_path: Path) -> None:
    job = HandJob(tmp_path)
    first = job.stage(("a", 1), ("b", 1), ("it's", 1), ("a", 2), ("b", None))
    second = job.stage(("b", 3), ("it's", None), ("no", None))
    assert rows_of(tmp_path) == {}
    for _ in range(2):
        job.committer.commit(first)
        assert rows_of(tmp_path) == {"a": [2, 0.5], "it's": [1, 0.5]}
    for _ in range(2):
        job.committer.commit([*second, *first])
        assert rows_of(tmp_path) == {"a": [2, 0.5], "b": [3, 0.5]}
    third = job.stage(("c", 4))
    job.committer.commit(third)
    assert len([*(tmp_path / "staged").rglob("*.arrow")]) == 2, (
        "the first file was removed by the third commit"
    )
    with pytest.raises(InputError, match="part of the key"):
        job.writer.write(pa.record_batch([[None], pa.array([None], VECTORS), [False]], schema=SCHEMA))
    for file in (tmp_path / "staged").rglob("*.arrow"):
        file.unlink()
    with pytest.raises(UnrestorableError, match="cannot be read"):
        job.committer.commit(third)


def test_the_sink_keeps_the_contract(tmp_path: Path) -> None:
    def make(name: str, schema: pa.Schema) -> Any:
        def rows() -> list[dict[str, Any]]:
            return list(lancedb.connect(str(tmp_path)).open_table(name).to_arrow().to_pylist())

        return rh.lancedb.sink(name, uri=tmp_path, key="n"), rows

    stored = {"int64", "float64", "string", "binary", "timestamp", "list", "struct"}
    assert stored <= set(check_sink(make))


def test_each_key_is_in_the_table_after_crashes(tmp_path: Path) -> None:
    def numbers(env: rh.Environment) -> rh.DataStream:
        source = rh.generator(lambda block: {"n": block.index()}, count=100, rate_per_s=100, splits=1)
        rows = env.from_source(source)
        rows.sink_to(rh.lancedb.sink("t", uri=tmp_path / "lake", key="n"))
        return rows

    simulate(numbers, seed=1, faults=Faults(crash_slot=1.0, crash_driver=0.5))
    found = lancedb.connect(str(tmp_path / "lake")).open_table("t").to_arrow()["n"].to_pylist()
    assert sorted(found) == list(range(100))


def test_wrong_targets_are_errors(tmp_path: Path) -> None:
    ids = pa.schema({"id": pa.int64(), "v": VECTORS})
    lancedb.connect(str(tmp_path)).create_table("t", schema=ids)
    wrong: list[tuple[dict[str, Any], pa.Schema, type[RheosError], str]] = [
        ({"key": "id"}, pa.schema({"id": pa.string()}), SchemaError, "but int64 in the table t"),
        ({"key": "id"}, pa.schema({"id": pa.int64(), "x": pa.int8()}), SchemaError, "no column 'x'"),
        ({"key": "v"}, ids, SchemaError, "a whole number or a string"),
        ({}, ids, ProgramError, "by a key of one column"),
        ({"key": "id", "table": "a/b"}, ids, ProgramError, "is not the name of a table"),
        ({"key": "id", "uri": "db://shop"}, ids, ProgramError, "names no folder"),
    ]
    for arguments, schema, kind, message in wrong:
        with pytest.raises(kind, match=message):
            prepare(schema, **{"table": "t", "uri": tmp_path, **arguments})


def prepare(schema: pa.Schema, **arguments: Any) -> None:
    made = rh.lancedb.sink(**arguments)
    made.validate(schema)
    made.prepared(schema, ("job", "sink"))
