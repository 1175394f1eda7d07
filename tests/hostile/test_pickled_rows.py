"""A savepoint with rows that are pickles which execute something: they are not loaded, unless the
user allows it."""

from __future__ import annotations

import datetime
import os
import pickle
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from rheos.core.errors import UnrestorableError
from rheos.core.protocol.types import row_type
from rheos.ops.savepoints import reading_tasks
from rheos.ops.savepoints.savepoint_folder import open_savepoint
from rheos.ops.savepoints.task_frames import reads
from rheos.runtimes.state_tables.pickled_rows import read_row
from tests.ops.savepoints.goldens import unpack

VALUES = (
    1,
    2.5,
    "text",
    b"bytes",
    None,
    [1, {"a": (True,)}],
    Decimal("1.50"),
    datetime.date(2026, 1, 2),
    datetime.time(3, 4, 5),
    datetime.timedelta(seconds=7),
    datetime.datetime(2026, 1, 2, 3, 4),
    datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.UTC),
    datetime.datetime(2026, 1, 2, 3, 4, tzinfo=ZoneInfo("Europe/Berlin")),
)
PLAIN = row_type(pa.schema([pa.field(f"c{i}", pa.null()) for i in range(len(VALUES))]))._make(VALUES)


class Mark:
    """Makes a folder where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._path),)


@pytest.mark.parametrize("protocol", range(3, pickle.HIGHEST_PROTOCOL + 1))
def test_plain_rows_are_read_whatever_their_content(protocol: int) -> None:
    found = read_row(pickle.dumps(PLAIN, protocol), "reduced", trusted=False)
    assert tuple(found) == VALUES
    assert found.columns_ == PLAIN.columns_


def test_pickles_are_not_executed(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for payload in (Mark(mark), PLAIN._replace(c0=Mark(mark)), [Mark(mark)]):
        with pytest.raises(UnrestorableError, match=r"is stored as a pickle that refers to") as e:
            read_row(pickle.dumps(payload), "reduced", trusted=False)
        assert "trusted=True" in str(e.value.hint)
        assert not mark.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"cbuiltins\ngetattr\n(cdatetime\ndatetime\nS'__class__'\ntR.",
        b"cbuiltins\ngetattr\n(cbuiltins\ngetattr\nS'__globals__'\ntR.",
        b"cdatetime\ndatetime.__subclasses__\n(tR.",
        b"crheos.protocol.types\n_row_type.__globals__\n.",
        b"cdatetime\ndatetime\n(dS'x'\nI1\nsb.",
        b"\x80\x04\x82\x01.",
        b"P1\n.",
        b"",
        b"garbage",
    ],
)
def test_other_ways_to_name_objects_are_refused(data: bytes) -> None:
    with pytest.raises(UnrestorableError):
        read_row(data, "reduced", trusted=False)


@pytest.mark.parametrize("trusted", [False, True])
def test_a_savepoint_is_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    """As Spark's task does it, with the rows of `reduce` in a real savepoint replaced."""
    pytest.importorskip("pyspark")
    mark = tmp_path / "mark"
    directory, _, savepoint = open_savepoint(unpack(tmp_path / "golden"))
    [operator] = [id for id, name in savepoint.entry.operators.items() if id == "row sums"]
    task = reads(directory, savepoint, operator, "reduced")
    honest = reading_tasks.decoded

    def swapped(data: bytes, handle: Any) -> pa.Table:
        table = honest(data, handle)
        values = pa.array([pickle.dumps(Mark(mark))] * table.num_rows, pa.binary())
        return table.set_column(table.schema.get_field_index("value"), "value", values)

    monkeypatch.setattr(reading_tasks, "decoded", swapped)
    numbers = [pa.RecordBatch.from_pydict({"id": list(range(len(task.shares)))})]

    def rows() -> Iterator[pa.RecordBatch]:
        payload = reading_tasks.ReadState(
            task.directory, task.state, task.shares, task.shapes, trusted=trusted
        )
        return reading_tasks.read_state(pickle.dumps(payload), numbers)

    with pytest.raises(UnrestorableError) as caught:
        list(rows())
    assert mark.exists() == trusted
    if not trusted:
        assert "state 'reduced' is stored as a pickle" in str(caught.value)
        assert "row sums" in str(caught.value)
