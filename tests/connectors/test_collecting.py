"""Results from Spark are complete, or an error is raised."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql.pandas import conversion

from rheos.connectors.spark.collecting import collected, collected_table
from rheos.core.errors import JobFailedError

pytestmark = pytest.mark.spark


def served(monkeypatch: pytest.MonkeyPatch, frame: Any, keep: float) -> None:
    """Cut off what the JVM serves to PySpark after this part, as if the serving thread had died."""
    module: Any
    for module in (sys.modules[type(frame).__module__], conversion):
        load = module._load_from_socket

        def part(data: bytes, serializer: Any) -> Any:
            return serializer.load_stream(io.BytesIO(data[: int(len(data) * keep)]))

        @contextmanager
        def opened(found: Any, serializer: Any) -> Iterator[Any]:
            with found as data:
                yield part(data, serializer)

        def cut(sock_info: Any, serializer: Any, load: Any = load) -> Any:
            found = load(sock_info, Everything())  # A context manager in newer versions of PySpark.
            return (part if isinstance(found, bytes) else opened)(found, serializer)

        monkeypatch.setattr(module, "_load_from_socket", cut)


class Everything:
    def load_stream(self, stream: Any) -> bytes:
        return bytes(stream.read())


@pytest.mark.parametrize("keep", [0.0, 0.4, 0.9])
def test_a_stream_that_is_cut_is_an_error(
    spark: Any, monkeypatch: pytest.MonkeyPatch, keep: float
) -> None:
    frame = spark.range(0, 5000, 1, 3)
    served(monkeypatch, frame, keep)
    # What PySpark itself makes of it.
    assert len(frame.collect()) < 5000
    with pytest.raises(JobFailedError, match="rows of Spark's result reached the driver, and not"):
        collected(frame)
    with pytest.raises(JobFailedError, match="rows of Spark's result reached the driver, and not"):
        collected_table(frame)


def test_a_complete_stream_returns_all_rows_in_order_and_the_tasks(spark: Any) -> None:
    came = collected(spark.range(0, 1000, 1, 3))
    assert [row.id for row in came.rows] == list(range(1000))
    assert came.tasks == 3
    assert collected_table(spark.range(0, 10, 1, 2)).to_pydict() == {"id": list(range(10))}


def test_an_empty_result_is_complete(spark: Any) -> None:
    empty = spark.createDataFrame([], "a int, b string")
    assert list(collected(empty).rows) == []
    assert collected_table(empty).to_pydict() == {"a": [], "b": []}
    assert collected(spark.range(0, 5, 1, 2).filter("id < 0")).tasks == 2


def test_tasks_after_a_shuffle_are_counted_after_merging(spark: Any) -> None:
    """Check tasks after a shuffle: adaptive execution merges small partitions, so their number is known
    only after they ran."""
    came = collected(spark.range(0, 100, 1, 3).repartition("id"))
    assert sorted(row.id for row in came.rows) == list(range(100))
    assert came.tasks < 4
