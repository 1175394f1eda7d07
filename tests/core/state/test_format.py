"""State files: written rows are read back, also by key groups, and files of version 1 stay readable.
The golden files were written by `encode(TABLES[name], *PARTS[name])`, and are never written again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.errors import CheckpointError
from rheos.core.protocol.key_groups import group_range
from rheos.core.protocol.snapshots import PartMode, StateKind
from rheos.core.state.format import VERSION, decode, encode

GOLDEN = Path(__file__).parent / "golden"

ROWS = pa.schema(
    [
        pa.field("key_group", pa.uint16(), nullable=False),
        pa.field("key", pa.binary(), nullable=False),
        pa.field("namespace", pa.binary(), nullable=False),
        pa.field("value", pa.binary()),
    ]
)

PARTS = {
    "v1-keyed-full": (StateKind.KEYED, PartMode.FULL),
    "v1-keyed-delta": (StateKind.KEYED, PartMode.DELTA),
    "v1-list": (StateKind.LIST, PartMode.FULL),
    "v1-union-empty": (StateKind.UNION, PartMode.FULL),
}


def keyed(*rows: tuple[int, bytes, bytes, bytes | None]) -> pa.Table:
    return pa.Table.from_arrays(
        [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(ROWS)],
        schema=ROWS,
    )


TABLES = {
    "v1-keyed-full": keyed(
        (0, b"\x01", b"", b"\x05"),
        (0, b"\x02", b"", b"\x06"),
        (7, b"\xa1x", b"", b""),
        (127, b"", b"", b"z"),
    ),
    "v1-keyed-delta": keyed((0, b"\x02", b"", None), (64, b"\x03", b"e\x00", b"\x07")),
    "v1-list": pa.table({"split": ["a.jsonl", "b.jsonl", None], "offset": [0, 512, -1]}),
    "v1-union-empty": pa.table({"rule": pa.array([], pa.string())}),
}


@pytest.mark.parametrize("name", sorted(TABLES))
def test_files_of_version_1_are_read(name: str) -> None:
    assert decode((GOLDEN / f"{name}.arrow").read_bytes(), None).equals(TABLES[name])


@pytest.mark.parametrize("name", sorted(TABLES))
def test_written_state_is_read_back(name: str) -> None:
    assert decode(encode(TABLES[name], *PARTS[name]), None).equals(TABLES[name])


def test_a_range_of_groups_is_read_alone() -> None:
    data = encode(TABLES["v1-keyed-full"], *PARTS["v1-keyed-full"])
    assert decode(data, range(0, 8)).column("key_group").to_pylist() == [0, 0, 7]
    assert decode(data, range(1, 127)).column("key").to_pylist() == [b"\xa1x"]
    nothing = decode(data, range(8, 127))
    assert nothing.num_rows == 0
    assert nothing.schema.equals(ROWS)


def test_key_groups_do_not_divide_unkeyed_state() -> None:
    data = encode(TABLES["v1-list"], *PARTS["v1-list"])
    assert decode(data, range(3, 4)).equals(TABLES["v1-list"])


@given(
    st.lists(st.integers(0, 127), max_size=40).map(sorted),
    st.integers(1, 128),
    st.integers(1, 9),
)
def test_the_subtasks_of_any_parallelism_read_each_row_once(
    groups: list[int], parallelism: int, chunk: int
) -> None:
    rows = [
        (group, str(i).encode(), b"", None if i % 5 == 0 else b"v") for i, group in enumerate(groups)
    ]
    table = keyed(*rows)
    # A part may come in several chunks.
    pieces = [table.slice(start, chunk) for start in range(0, len(rows), chunk)] or [table]
    data = encode(pa.concat_tables(pieces), StateKind.KEYED, PartMode.DELTA)
    read = [decode(data, group_range(subtask, parallelism, 128)) for subtask in range(parallelism)]
    assert pa.concat_tables(read).equals(table)
    for subtask, part in enumerate(read):
        owned = group_range(subtask, parallelism, 128)
        assert np.isin(part.column("key_group").to_numpy(), list(owned)).all()


def test_a_newer_version_is_refused_with_a_hint() -> None:
    data = encode(TABLES["v1-list"], *PARTS["v1-list"])
    newer = _with_metadata(data, b"rheos.version", str(VERSION + 1).encode())
    with pytest.raises(CheckpointError, match=f"format version {VERSION + 1}") as raised:
        decode(newer, None)
    assert "newer" in str(raised.value.hint)


@pytest.mark.parametrize("version", [b"", b"one", b"0", b"-1"])
def test_an_unknown_version_is_refused(version: bytes) -> None:
    data = _with_metadata(encode(TABLES["v1-list"], *PARTS["v1-list"]), b"rheos.version", version)
    with pytest.raises(CheckpointError):
        decode(data, None)


def test_a_foreign_arrow_file_is_refused() -> None:
    out = pa.BufferOutputStream()
    table = TABLES["v1-list"]
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(CheckpointError):
        decode(out.getvalue().to_pybytes(), None)


@pytest.mark.parametrize("keep", [0, 6, 100, -1])
def test_a_file_cut_short_is_refused(keep: int) -> None:
    data = encode(TABLES["v1-keyed-full"], *PARTS["v1-keyed-full"])
    with pytest.raises(CheckpointError):
        decode(data[:keep], None)


def _with_metadata(data: bytes, key: bytes, value: bytes) -> bytes:
    table = pa.ipc.open_file(data).read_all()
    schema = table.schema.with_metadata({**table.schema.metadata, key: value})
    out = pa.BufferOutputStream()
    with pa.ipc.new_file(out, schema) as writer:
        writer.write_table(table.cast(schema))
    return bytes(out.getvalue().to_pybytes())
