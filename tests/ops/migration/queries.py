"""Structured Streaming queries over a folder of files, and the same jobs in Rheos."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import rheos as rh

COLUMNS = "item string, price bigint, weight double, at timestamp"
SCHEMA = {"item": str, "price": int, "weight": float, "at": datetime}

FIRST = [
    {"item": "tea", "price": 3, "weight": 0.5, "at": "2026-01-01T00:00:01Z"},
    {"item": "jam", "price": 5, "weight": 0.1, "at": "2026-01-01T00:00:12Z"},
    {"item": "rye", "price": 6, "weight": 1.0, "at": "2026-01-01T00:00:24Z"},
    {"item": "tea", "price": 4, "weight": 0.2, "at": "2026-01-01T00:00:25Z"},
]
REST = [
    {"item": "tea", "price": 10, "weight": 0.25, "at": "2026-01-01T00:00:27Z"},
    {"item": "jam", "price": 1, "weight": 0.1, "at": "2026-01-01T00:00:28Z"},
    {"item": "rye", "price": 8, "weight": 1.0, "at": "2026-01-01T00:00:28Z"},
    {"item": "tea", "price": 2, "weight": 0.5, "at": "2026-01-01T00:00:50Z"},
    {"item": "oat", "price": 7, "weight": 1.5, "at": "2026-01-01T00:01:50Z"},
]
"""Rows in the order of event time, so that none is late by either rule."""


def put(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("\n".join(map(json.dumps, rows)))


def run_query(rows: Any, mode: str, checkpoint: Path, name: str) -> list[dict[str, Any]]:
    """Run a query over all files, and return the rows that it emits in this run."""
    made: list[dict[str, Any]] = []
    query = (
        rows.writeStream.outputMode(mode)
        .foreachBatch(lambda frame, _: made.extend(row.asDict(True) for row in frame.collect()))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .queryName(name)
        .start()
    )
    query.awaitTermination()
    return made


def stream_of(spark: Any, folder: Path) -> Any:
    return spark.readStream.schema(COLUMNS).json(str(folder)).withWatermark("at", "5 seconds")


def job(folder: Path, build: Callable[[rh.DataStream], rh.DataStream], **more: Any) -> rh.Environment:
    env = rh.Environment(parallelism=2, runtime="continuous", **more)
    source = rh.files.source(str(folder), format="jsonl", schema=SCHEMA)
    in_order = rh.Watermark.bounded_out_of_orderness("5s", on="at")
    rows = env.from_source(source, watermark=in_order, uid="rows")
    build(rows).uid("moved").sink_to(rh.collect_sink(), name="out")
    return env


def bytes_in(folder: Path) -> Mapping[str, str]:
    """Return a digest of each file below a folder, hidden ones included."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
