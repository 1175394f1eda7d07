"""Files of DuckDB for tests, and a job that commits by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import rheos as rh
from rheos.core.connectors.contract import Committer, Sink
from rheos.core.connectors.sink_capabilities import commits_on_driver, prepared, staged_sink
from rheos.core.protocol.ids import CheckpointId
from tests.connectors.ports import sink_context


def run(path: Path, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements in a file, and return the rows of the last one."""
    with duckdb.connect(str(path)) as connection:
        rows: list[tuple[Any, ...]] = []
        for statement in statements:
            rows = connection.execute(statement).fetchall()
        return rows


class HandJob:
    """A job that stages rows of a table, and whose driver commits them, by hand."""

    def __init__(self, path: Path, schema: pa.Schema, changes: bool = False, **how: Any) -> None:
        made: Sink = rh.duckdb.sink("t", path=path, **how)
        if changes:
            made = made.of_changes(made.key, "gone")  # type: ignore[attr-defined]
        made.validate(schema)
        self.schema = schema
        self.sink = staged_sink(prepared(made, schema, ("job", "sink")), f"{path}.staged")
        self.attempt = 1
        self.checkpoint = 0
        self.writer = self.sink.open(sink_context(schema, attempt=1))

    def driver(self) -> Committer:
        committer = self.sink.committer()
        assert committer is not None
        assert commits_on_driver(committer)
        return committer

    def stage(self, *rows: tuple[Any, ...]) -> list[bytes]:
        """Write rows, and pass a barrier."""
        columns: list[Any] = list(zip(*rows, strict=True)) or [[] for _ in self.schema]
        pairs = zip(columns, self.schema.types, strict=True)
        arrays = [pa.array(values, kind) for values, kind in pairs]
        self.writer.write(pa.record_batch(arrays, schema=self.schema))
        self.checkpoint += 1
        return self.writer.prepare(CheckpointId(self.checkpoint))

    def put(self, *rows: tuple[Any, ...]) -> None:
        """Write rows, and commit them with a checkpoint."""
        self.driver().commit(self.stage(*rows))
