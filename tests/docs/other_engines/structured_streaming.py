"""Runs a program of docs/coming-from.md as a query of Spark: a row in each micro-batch."""

from __future__ import annotations

import asyncio  # noqa: F401 The programs use it.
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd  # noqa: F401
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: F401, N812
from pyspark.sql.streaming import StatefulProcessor  # noqa: F401

from tests.docs.other_engines import rows as given

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

Program = Callable[..., DataFrame]


def session() -> SparkSession:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    # A Python worker has imports to do before it answers: 15 s otherwise.
    builder = builder.config("spark.python.authenticate.socketTimeout", "120s")
    return builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()


class Runner:
    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder

    def stream(self, name: str, schema: str, rows: list[given.Values]) -> DataFrame:
        folder = self._folder / name
        folder.mkdir()
        names = [column.split()[0] for column in schema.split(", ")]
        for number, row in enumerate(rows):
            values = dict(zip(names, row, strict=True))
            if "at" in values:
                values["at"] = datetime.fromtimestamp(values["at"] / 1000, UTC).isoformat()
            file = folder / f"{number}.json"
            file.write_text(json.dumps(values))
            os.utime(file, (number, number))  # It reads the oldest first.
        read = self._spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return read.json(str(folder))

    def found(self, name: str, result: DataFrame, mode: str = "append") -> set[given.Values]:
        """Return the rows that the query writes until all is read, without those that only advance the
        watermark."""
        writer = result.writeStream.format("memory").queryName(name).outputMode(mode)
        checkpoint = str(self._folder / f"checkpoint-{name}")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination(120)
        assert not query.isActive, f"{name} has not ended"
        found = {tuple(map(plain, row)) for row in self._spark.table(name).collect()}
        return {row for row in found if "z" not in row}


def plain(value: Any) -> object:
    """Replace a window by its start, a time in milliseconds."""
    if isinstance(value, Row):
        value = value[0]
    if isinstance(value, datetime):
        return round(value.astimezone(UTC).timestamp() * 1000)
    return value
