"""The rows of several keyed ports, sorted together and delivered by port."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.plan.physical import Edge, Exchange
from rheos.core.protocol.elements import TS
from rheos.core.protocol.ids import ChainId
from rheos.runtimes.batch.buckets import BucketOutlet, SortedBuckets
from rheos.runtimes.batch.keyed_input import Generations
from rheos.runtimes.batch.keyed_ports import SeveralPorts
from rheos.runtimes.batch.layout import payloads
from rheos.runtimes.batch.tasks import RowsOutput

# Includes a dictionary with narrow indices, a view and an extension type.
_LEFT = pa.schema(
    [
        ("key", pa.int64()),
        ("n", pa.int64()),
        ("text", pa.string_view()),
        ("word", pa.dictionary(pa.int8(), pa.string())),
        ("id", pa.uuid()),
        (TS, pa.int64()),
    ]
)
_RIGHT = pa.schema([("n", pa.int64()), ("owner", pa.int16()), (TS, pa.int64())])
_UNTIMED = pa.schema([("owner", pa.int32()), ("n", pa.int64())])


def batch(schema: pa.Schema, rows: list[tuple[int, int]], first: int) -> pa.RecordBatch:
    """Return rows of keys and times, numbered in order of arrival."""
    values: dict[str, Any] = {
        "key": [key for key, _ in rows],
        "owner": [key for key, _ in rows],
        "n": [first + at for at in range(len(rows))],
        "text": [f"text {key}, and so long that it is no inline one" for key, _ in rows],
        "word": [None if key % 3 == 0 else f"word {key}" for key, _ in rows],
        "id": [bytes([key] * 16) for key, _ in rows],
        TS: [time for _, time in rows],
    }
    return pa.record_batch([pa.array(values[f.name], f.type) for f in schema], schema=schema)


def delivered(
    rows: list[tuple[int, int, int]],
    schemas: dict[int, pa.Schema],
    folder: Path,
    budget_bytes: int,
    generation_rows: int = 8,
) -> list[tuple[int, list[dict[str, Any]]]]:
    """Return what the operator receives for rows (port, key, time), batch by batch."""
    keyed = SeveralPorts(schemas)
    packed: list[tuple[int, int, pa.Buffer]] = []
    for first, (port, key, time) in enumerate(rows):
        keys = ("key",) if "key" in schemas[port].names else ("owner",)
        edge = Edge(port, Exchange.HASH, ChainId(0), ChainId(1), port, keys)
        outlet = BucketOutlet(RowsOutput(edge, schemas[port], bucket_bits=3), partition=port)
        sent = [*outlet.rows(0, batch(schemas[port], [(key, time)], first)), *outlet.finish()]
        packed += [(bucket, port, data) for each in sent for bucket, data in payloads(each, "bucket")]
    buckets = SortedBuckets(keyed.order, str(folder / "shuffled"), budget_bytes)
    generations = Generations(keyed.timed, generation_rows)
    found = []

    def deliver(feeds: Any) -> None:
        for fed in feeds:
            for port, rows in keyed.delivered(fed.rows):
                assert rows.schema == schemas[port]
                found.append((port, rows.to_pylist()))

    for bucket, port, data in sorted(packed, key=lambda each: each[0]):
        for some in buckets.take(bucket, keyed.read(port, data), data.size):
            deliver(generations.take(some))
    for some in buckets.end():
        deliver(generations.take(some))
    deliver(generations.end())
    return found


_ROWS = st.lists(st.tuples(st.sampled_from([0, 2]), st.integers(0, 9), st.integers(0, 5)), max_size=60)


@pytest.mark.parametrize("budget_bytes", [1 << 30, 400], ids=["memory", "disk"])
@pytest.mark.parametrize("right", [_RIGHT, _UNTIMED], ids=["timed", "untimed"])
@given(rows=_ROWS)
def test_rows_of_a_key_are_ordered_by_time_port_arrival(
    tmp_path_factory: pytest.TempPathFactory,
    budget_bytes: int,
    right: pa.Schema,
    rows: list[tuple[int, int, int]],
) -> None:
    schemas = {0: _LEFT, 2: right}
    found = delivered(rows, schemas, tmp_path_factory.mktemp("ports"), budget_bytes)
    got: dict[int, list[tuple[int, int]]] = {}
    for port, batch_rows in found:
        for row in batch_rows:
            key = row["key"] if port == 0 else row["owner"]
            assert port != 0 or row["text"].startswith(f"text {key},")
            got.setdefault(key, []).append((port, row["n"]))
    wanted: dict[int, list[tuple[int, int]]] = {}
    placed = [
        (key, time if TS in schemas[port].names else -1, port, n)
        for n, (port, key, time) in enumerate(rows)
    ]
    for key, _, port, n in sorted(placed):
        wanted.setdefault(key, []).append((port, n))
    assert got == wanted


def test_a_generation_is_delivered_in_few_batches(tmp_path: Path) -> None:
    """The number of batches is that of the key that changes ports most often, not one batch per key."""
    rows = [(port, key, time) for key in range(2) for time in range(2) for port in (0, 2)]
    found = delivered(rows, {0: _LEFT, 2: _RIGHT}, tmp_path, 1 << 30, 64)
    assert [(port, sorted(row["n"] for row in some)) for port, some in found] == [
        (0, [0, 4]),
        (2, [1, 5]),
        (0, [2, 6]),
        (2, [3, 7]),
    ]
    assert [port for port, _ in groupby(found, key=lambda each: each[0])] == [0, 2, 0, 2]
