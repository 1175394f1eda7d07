"""State that expires, converted to rows and back, without Spark: each entry has its expiry time."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from rheos.core.errors import InputError
from rheos.core.graph.state import ListState, MapState, StateDeclaration, ValueState
from rheos.core.protocol.shapes import FieldShape, StateShape, TypeShape
from rheos.core.state.kinds import shape_of, stored_types
from rheos.ops.savepoints.encoding import EncodeState, encode_state
from rheos.ops.savepoints.layouts import layout_of
from tests.core.state.keyed_jobs import GROUPS, ROCKSDB, Job, declared

STATES = declared(
    last=ValueState(str, ttl="100ms"),
    counts=MapState(str, int, ttl="100ms"),
    log=ListState(int, ttl="100ms"),
    things=ListState(object, ttl="100ms"),
)


def shapes() -> dict[str, StateShape]:
    key = [FieldShape(name="user", type=TypeShape(name="string"))]
    return {name: msgspec.structs.replace(shape_of(state), key=key) for name, state in STATES.items()}


def shown(job: Job, state: str) -> list[dict[str, Any]]:
    layout = layout_of(state, shapes())
    [part] = [part for part in job.subtasks[0].backend.savepoint() if part.state == state]
    written: Any = part.write()
    tables = [written] if isinstance(written, pa.Table) else list(written)
    return [row for table in tables for row in layout.rows(table).to_pylist()]


def test_entries_are_shown_with_their_expiry_time(tmp_path: Path) -> None:
    job = Job(tmp_path, STATES, ROCKSDB)
    for job.now_ms in (10, 20):
        here = job["ann"]
        here.last.value = f"at {job.now_ms}"
        here.counts[f"x{job.now_ms}"] = job.now_ms
        here.log.append(job.now_ms)
        here.things.append(job.now_ms)
        job.checkpoint()
    assert shown(job, "last") == [{"user": "ann", "value": "at 20", "expires_ms": 120}]
    assert shown(job, "counts") == [
        {"user": "ann", "map_key": "x10", "value": 10, "expires_ms": 110},
        {"user": "ann", "map_key": "x20", "value": 20, "expires_ms": 120},
    ]
    assert shown(job, "log") == [
        {"user": "ann", "position": 0, "value": 10, "expires_ms": 110},
        {"user": "ann", "position": 1, "value": 20, "expires_ms": 120},
    ]
    things = shown(job, "things")
    assert [row["expires_ms"] for row in things] == [110, 120]
    job.close()


@pytest.mark.parametrize("state", ["last", "counts", "log"])
def test_rows_become_their_original_entries_again(state: str) -> None:
    declaration: StateDeclaration = STATES[state]
    rows = {
        "last": {"user": "ann", "value": "x", "expires_ms": 120},
        "counts": {"user": "ann", "map_key": "x", "value": 7, "expires_ms": 120},
        "log": {"user": "ann", "position": 0, "value": 7, "expires_ms": 120},
    }[state]
    given = pa.schema([(name, pa.scalar(value).type) for name, value in rows.items()])
    task = EncodeState(state, shapes(), given, GROUPS, 1, stored_types(declaration))
    batch = pa.RecordBatch.from_pylist([rows], given)
    [encoded] = encode_state(pickle.dumps(task), [batch])
    [entry] = encoded.to_pylist()
    # 20 ms, followed by the bytes that are stored if nothing expires.
    assert entry["value"] == (20).to_bytes(8, "big") + msgspec.msgpack.encode(rows["value"])
    without = pa.RecordBatch.from_pylist([rows | {"expires_ms": None}], given)
    with pytest.raises(InputError, match="'expires_ms' is null"):
        list(encode_state(pickle.dumps(task), [without]))
