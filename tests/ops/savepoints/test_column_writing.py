"""One pass over the rows writes all states of an encoder, each in the order of its key groups."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rheos.core.errors import InputError
from rheos.core.protocol import error_data
from rheos.core.protocol.ids import OperatorId
from rheos.core.state.parts import GROUP
from rheos.ops.savepoints.column_writing import PackColumns, WriteColumns, pack_columns, write_columns
from rheos.ops.savepoints.writing_tasks import handle_decoder

ROWS = pa.schema([("key", pa.int64()), ("parts", pa.int64())])


@dataclass(frozen=True)
class TwoStates:
    """Encoder of a row for each key, and of a row for each of its parts."""

    unique = {"whole": ("key",), "parts": ("key", "part")}

    def tables(self, rows: pa.RecordBatch) -> dict[str, pa.Table]:
        keys, parts = (rows.column(name).to_numpy() for name in ROWS.names)
        part = np.concatenate([np.arange(count) for count in parts])
        return {
            "whole": pa.table({GROUP: keys.astype(np.uint16), "key": keys}),
            "parts": pa.table(
                {
                    GROUP: np.repeat(keys, parts).astype(np.uint16),
                    "key": np.repeat(keys, parts),
                    "part": part,
                }
            ),
        }


def written(folder: Path, rows: list[tuple[int, int]]) -> list[tuple[str, int, int]]:
    """Write the states of these rows, and return state, subtask and row count of each file.

    Raise the error of the task.
    """
    keys, parts = zip(*rows, strict=True)
    batch = pa.record_batch([pa.array(keys), pa.array(parts)], schema=ROWS)
    pack = PackColumns(TwoStates(), ROWS, targets=2, max_parallelism=4)
    write = WriteColumns(str(folder), OperatorId("of"), TwoStates.unique, 2, 2, 4, "token")
    packed = pack_columns(pickle.dumps(pack), iter([batch]))
    made = [row for part in write_columns(pickle.dumps(write), packed) for row in part.to_pylist()]
    for row in made:
        if row["error"] is not None:
            raise error_data.decoder.decode(row["error"]).error()
    handles = [handle_decoder.decode(row["handle"]) for row in made]
    return sorted((handle.state, handle.subtask, handle.rows) for handle in handles)


def test_one_pass_writes_all_states(tmp_path: Path) -> None:
    assert written(tmp_path, [(3, 2), (0, 1), (1, 3)]) == [
        ("parts", 0, 4),
        ("parts", 1, 2),
        ("whole", 0, 2),
        ("whole", 1, 1),
    ]


def test_a_row_that_occurs_twice_is_refused_with_its_state(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="state 'parts' of operator 'of' has the same row twice"):
        written(tmp_path, [(3, 1), (3, 1)])
