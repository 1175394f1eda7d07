"""Source of a streaming DataFrame: anything that Spark can stream.

Spark's streams cannot be read again from an earlier position of a job. So a query of Structured
Streaming runs on the driver alongside the job (`stream_query.py`), and stages each micro-batch before
it counts as read (`stream_folder.py`); the job reads the staged batches (`stream_lanes.py`). The
reasons, and the rules for late rows: `docs/decisions/streams-of-spark.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rheos.core.connectors.contract import ReaderContext, Source, Split, SplitReader
from rheos.core.errors import ConfigurationError
from rheos.core.protocol.durations import Duration, duration_ms

LANES = 4
MAX_UNREAD = 100
_MOST_LANES = 10_000


@dataclass(frozen=True)
class StreamSettings:
    """The user's settings of the query."""

    trigger_ms: int
    available_now: bool
    lanes: int
    max_unread: int
    retain_ms: int


def stream_settings(
    trigger: Duration, available_now: bool, lanes: int, max_unread: int, retain: Duration
) -> StreamSettings:
    """Check the settings of a stream. Raises ProgramError for an invalid duration, and
    ConfigurationError for a number that is out of range."""
    for name, value, most in (("lanes", lanes, _MOST_LANES), ("max_unread", max_unread, 1_000_000)):
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise ConfigurationError(
                f"{name} must be an integer from 1 to {most}, not {value!r}",
                hint="leave it out unless you need another value",
            )
    return StreamSettings(
        duration_ms(trigger), bool(available_now), lanes, max_unread, duration_ms(retain)
    )


@dataclass(frozen=True, eq=False)
class StreamSource(Source):
    """Source that `dataframe.stream_source` creates. It stays on the driver; workers read the rows that
    the query has staged."""

    frame: Any
    """Classic streaming pyspark.sql.DataFrame. Its columns are those of `schema`, in the same order."""
    schema: pa.Schema
    settings: StreamSettings
    event_time: str | None = None
    """Column by which the rows of a batch are sorted."""
    bounded: bool = field(default=False, init=False)
    event_time_behind: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounded", self.settings.available_now)

    def queries(self) -> Sequence[Source]:
        return [self]

    def session(self) -> Any:
        return self.frame.sparkSession

    def only_reader(self) -> str | None:
        return "a Spark query stages its rows for this job"

    def staged(self, folder: str) -> Source:
        # Only jobs with a Spark stream need this module.
        from rheos.connectors.spark.stream_query import StreamQuery

        return StreamQuery(self.frame, self.schema, self.event_time, self.settings, folder).started()

    def splits(self) -> Sequence[Split]:
        raise AssertionError("a Spark stream is staged before its splits are listed")

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        raise AssertionError("a Spark stream is staged before it is read")

    def __reduce__(self) -> Any:
        raise AssertionError("a Spark stream is staged before its plan is sent")

    def positions(self) -> str:
        return "a Spark stream"

    def describe(self) -> str:
        return "Spark stream"
