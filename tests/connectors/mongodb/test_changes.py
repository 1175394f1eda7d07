"""Documents and then changes of a collection, on a server with MongoDB's protocol."""

from __future__ import annotations

import datetime as dt
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.connectors.contract import EndOfSplit
from rheos.core.errors import InputError
from rheos.testing import Faults, check_source, simulate
from tests.connectors.mongodb.conftest import Collections
from tests.connectors.ports import Probe

SCHEMA = {"_id": str, "n": int}
SLOW = "the wheel with the server is not installed by CI"
AT_ROW: dict[int, Callable[[], None]] = {}
"""Actions by the number of a row: the job runs each once, when it reaches the row."""
pytestmark = pytest.mark.slow  # CI does not install the wheel with the server.


@contextmanager
def opened(source: Any, split: Any, position: bytes | None = None) -> Iterator[Any]:
    reader = source.open(split, position, Probe().context())
    try:
        yield reader
    finally:
        reader.close()


def rows_of(reader: Any, count: int | None = None) -> list[tuple[Any, ...]]:
    """Return the next rows of a reader: this number, or all to its end."""
    found: list[tuple[Any, ...]] = []
    until_s = time.monotonic() + 60
    while count is None or len(found) < count:
        polled = reader.poll(1 if count is not None else 1000)
        if isinstance(polled, EndOfSplit):
            break
        if isinstance(polled, pa.RecordBatch):
            found += [tuple(row.values()) for row in polled.to_pylist()]
        else:
            assert time.monotonic() < until_s
            time.sleep(0.01)
    return found


def test_documents_and_then_changes_are_read(collections: Collections) -> None:
    name = collections.new()
    target = collections[name]
    target.insert_many([{"_id": f"{n:05}", "n": n} for n in range(2500)])
    given: Any = {"schema": SCHEMA, "end": "now"}
    source = rh.mongodb.changes(name, url=collections.url, **given)
    [split] = source.splits()
    target.insert_one({"_id": "x", "n": 1})
    target.update_one({"_id": "x"}, {"$set": {"n": 2}})
    target.replace_one({"_id": "00000"}, {"n": -1})
    target.delete_one({"_id": "00001"})
    with opened(source, split) as reader:
        rows = rows_of(reader)
    existed = [row for row in rows if row[2] == "snapshot"]
    assert existed == [
        ("00000", -1, "snapshot"),
        *((f"{n:05}", n, "snapshot") for n in range(2, 2500)),
        ("x", 2, "snapshot"),
    ]
    changes = rows[len(existed) :]
    assert changes == [
        ("x", 1, "insert"),
        ("x", 2, "update"),
        ("00000", -1, "update"),
        ("00001", None, "delete"),
    ]
    # From every position of the changes, the rest follows.
    for after in (0, 1, 1000, 1001, 2499, 2500, len(rows) - 2, len(rows)):
        with opened(source, split) as reader:
            assert len(rows_of(reader, after)) == after
            position = reader.position()
        with opened(source, split, position) as reader:
            assert rows_of(reader) == rows[after:]
    source = rh.mongodb.changes(
        name, url=collections.url, snapshot=False, metadata=("op", "commit_time"), **given
    )
    with opened(source, split) as reader:
        found = rows_of(reader)
    assert [row[:3] for row in found] == changes
    assert all(abs(row[3] - dt.datetime.now(dt.UTC)) < dt.timedelta(hours=1) for row in found)


def test_ids_of_all_types_are_read_in_order(collections: Collections) -> None:
    bson = pytest.importorskip("bson")
    name = collections.new()
    ids = [
        *range(5),
        *(f"s{n}" for n in range(1500)),
        {"a": 1},
        bson.ObjectId("6b0add5c6a88481235ccbdbe"),
        True,
    ]
    collections[name].insert_many([{"_id": each, "n": place} for place, each in enumerate(ids)])
    source = rh.mongodb.changes(name, url=collections.url, schema=SCHEMA, end="now")
    [split] = source.splits()
    with opened(source, split) as reader:
        found = rows_of(reader)
    assert sorted(row[1] for row in found) == [*range(len(ids))]
    assert {row[0] for row in found} >= {"0", "s7", '{"a": 1}', "6b0add5c6a88481235ccbdbe", "true"}


def test_a_value_that_does_not_fit_and_a_dropped_collection(collections: Collections) -> None:
    name = collections.new()
    collections[name].insert_one({"_id": "a", "n": "many"})
    source = rh.mongodb.changes(name, url=collections.url, schema=SCHEMA)
    [split] = source.splits()
    with opened(source, split) as reader, pytest.raises(InputError, match="the field 'n'") as raised:
        rows_of(reader, 1)
    assert raised.value.record == "_id='a'"
    collections[name].drop()
    with opened(source, split) as reader, pytest.raises(InputError, match="dropped or renamed"):
        rows_of(reader, 1)


def test_the_source_keeps_the_contract(collections: Collections) -> None:
    name = collections.new()
    collections[name].insert_many([{"_id": f"{n}", "n": n} for n in range(5)])
    source = rh.mongodb.changes(name, url=collections.url, schema=SCHEMA, end="now")
    read = check_source(source, positions=3, max_rows=(1, 3))
    assert [row["n"] for row in read[name]] == [*range(5)]


def passed(row: Any) -> Any:
    AT_ROW.pop(row.n, lambda: None)()
    return row


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.proves(
    "MongoDB",
    faults=["the server is killed while a source reads", "workers of a simulated job crash"],
    slow_because=SLOW,
)
def test_a_copy_equals_the_collection_after_any_crash(
    mongodb_server: Any, collections: Collections
) -> None:
    name, copy = collections.new(), collections.new()
    collections[name].insert_many([{"_id": f"{n:03}", "n": n} for n in range(50)])

    def change() -> None:
        target = collections[name]
        target.delete_many({"n": {"$lt": 10}})
        target.update_many({"n": {"$gte": 40}}, {"$inc": {"n": 100}})
        mongodb_server.kill()
        mongodb_server.start()

    schema = pa.schema([pa.field("_id", pa.string(), False), ("n", pa.int64()), ("op", pa.string())])

    def build(env: rh.Environment) -> rh.DataStream:
        source = rh.mongodb.changes(name, url=collections.url, schema=SCHEMA, end="now")
        found = env.from_source(source).map(passed, returns=schema)
        found.upserts(key="_id").sink_to(rh.mongodb.sink(copy, url=collections.url, id="_id"))
        return found

    AT_ROW[25] = change
    done = simulate(build, seed=1, faults=Faults(crash_slot=40.0, commit_error=0.2), parallelism=1)
    gc.collect()  # A worker that has crashed leaves its connection open, as a killed process does.
    assert done.crashes > 0
    assert not AT_ROW
    assert collections.documents(copy) == collections.documents(name)
    assert len(collections.documents(copy)) == 40
