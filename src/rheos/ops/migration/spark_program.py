"""Runs the program of a Structured Streaming query up to the start of the query, which it captures.

The query's rows can then be computed elsewhere: from a copy of its checkpoint, into memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamReader, DataStreamWriter, StreamingQueryManager

from rheos.api.program_file import run_file
from rheos.connectors.spark import versions
from rheos.connectors.urls import absolute
from rheos.core.errors import ConfigurationError, ProgramError, Site
from rheos.core.site import call_site
from rheos.runtimes.spark.jvm_options import this_python_for_workers

_MODES = ("append", "update", "complete")


@dataclass(frozen=True)
class SparkQuery:
    """A query that a program would have started."""

    rows: DataFrame
    """Rows before the sink, as `writeStream` or `foreachBatch` receives them."""
    mode: str
    """Output mode: "append", "update" or "complete"."""
    site: Site
    """Line of the program that starts the query."""


def captured_query(
    file: Path, arguments: Sequence[str], checkpoint: str, batch_rows: int | None = None
) -> SparkQuery:
    """Run a program up to the start of the query that has this checkpoint. No query starts.

    A session that the program makes runs its workers with this Python, unless PYSPARK_PYTHON is set.

    Args:
        file: The Python file of the program. Its other code runs, and may make a session.
        arguments: Arguments of the program.
        checkpoint: The checkpoint of the query, as a path or URL.
        batch_rows: Number of rows after which the sources end a batch, if the program does not set
            its own limit; None for no limit.

    Returns:
        The query.

    Raises:
        ConfigurationError: The file does not exist, or it connects to a server of Spark Connect.
        ProgramError: The program starts no query with the checkpoint.
    """
    if any(os.environ.get(name) for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")):
        raise _is_remote()
    others: list[tuple[Site, str]] = []
    try:
        with this_python_for_workers(), _capturing(absolute(checkpoint), others, batch_rows):
            run_file(file, arguments)
    except _QueryCapture as captured:
        return captured.query
    if not others:
        raise ProgramError(
            f"{file} ended without starting a streaming query",
            hint="pass the program of the query; it starts the query with writeStream ... .start(), "
            "also under `if __name__ == '__main__':`",
        )
    there = ", ".join(f"{place} ({site})" for site, place in others)
    raise ProgramError(
        f"{file} starts no query with the checkpoint {checkpoint!r}; its queries have {there}",
        hint="pass the checkpoint that the program names as checkpointLocation; for a copy of it, "
        "change the location in the program",
    )


class _QueryCapture(BaseException):
    def __init__(self, query: SparkQuery) -> None:
        super().__init__(str(query.site))
        self.query = query


class _UnstartedQuery:
    """Stand-in for a query of the program that has another checkpoint. It has already ended."""

    isActive = False  # noqa: N815 - a name of PySpark

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802
        return True

    def processAllAvailable(self) -> None:  # noqa: N802
        pass

    def stop(self) -> None:
        pass


@contextmanager
def _capturing(
    checkpoint: str, others: list[tuple[Site, str]], batch_rows: int | None
) -> Iterator[None]:
    """Replace the start of queries in the block. The one with the checkpoint raises `_QueryCapture`.
    The lines and the checkpoints of others are added to `others`."""

    class Writer(DataStreamWriter):  # type: ignore[misc]
        def __init__(self, rows: DataFrame) -> None:
            super().__init__(rows)
            self._rows = rows
            self._mode = "append"
            self._location: object = None

        def outputMode(self, outputMode: str) -> Writer:  # noqa: N802, N803
            super().outputMode(outputMode)
            self._mode = outputMode.lower()
            return self

        def option(self, key: str, value: Any) -> Writer:
            if key.lower() == "checkpointlocation":
                self._location = value
            super().option(key, value)
            return self

        def options(self, **options: Any) -> Writer:
            for key, value in options.items():
                self.option(key, value)
            return self

        def start(self, *args: Any, outputMode: str | None = None, **options: Any) -> Any:  # noqa: N803
            self._capture(outputMode or (args[2] if len(args) > 2 else None), options)
            return _UnstartedQuery()

        def toTable(  # noqa: N802
            self,
            *args: Any,
            outputMode: str | None = None,  # noqa: N803
            **options: Any,
        ) -> Any:
            self._capture(outputMode or (args[2] if len(args) > 2 else None), options)
            return _UnstartedQuery()

        def _capture(self, mode: str | None, options: dict[str, Any]) -> None:
            site = call_site()
            for key, value in options.items():
                if key.lower() == "checkpointlocation":
                    self._location = value
            if mode is not None:
                self._mode = mode.lower()
            if self._mode not in _MODES:
                raise ProgramError(
                    f"the query has the output mode {self._mode!r}",
                    site=site,
                    hint=f"it is one of {', '.join(_MODES)}",
                )
            place = "no checkpointLocation" if self._location is None else str(self._location)
            if self._location is not None and _plain(place) == _plain(checkpoint):
                raise _QueryCapture(SparkQuery(self._rows, self._mode, site))
            others.append((site, place))

    def read_stream(session: SparkSession) -> DataStreamReader:
        reader = DataStreamReader(session)
        if batch_rows is None:
            return reader
        return reader.option("maxOffsetsPerTrigger", batch_rows).option("maxFilesPerTrigger", 1)

    def remote(*args: Any, **more: Any) -> NoReturn:
        raise _is_remote()

    with (
        _replaced(versions.classic_dataframe(), "writeStream", property(Writer)),
        _replaced(SparkSession, "readStream", property(read_stream)),
        _replaced(SparkSession.Builder, "remote", remote),
        _replaced(StreamingQueryManager, "awaitAnyTermination", lambda manager, timeout=None: True),
    ):
        yield


@contextmanager
def _replaced(owner: type, name: str, value: object) -> Iterator[None]:
    before = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _plain(place: str) -> str:
    """Return a location in one form: local paths are absolute and have no scheme."""
    return absolute(place.removeprefix("file://") if place.startswith("file:///") else place).rstrip(
        "/"
    )


def _is_remote() -> ConfigurationError:
    return ConfigurationError(
        "the program connects to a server of Spark Connect, which cannot run a copy of its query here",
        hint="run the program with a classic session, such as SparkSession.builder.master('local[2]')",
    )
