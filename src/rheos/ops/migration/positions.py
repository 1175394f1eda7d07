"""Positions of another system, as the splits of a Rheos source.

offsets of partitions   a Kafka source: each partition starts at its offset
files that were read    a files source: the splits of these files are finished
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, assert_never
from urllib.parse import unquote, urlparse

import pyarrow as pa

from rheos.connectors.files.source import FileSource
from rheos.connectors.kafka.bounds import Partition
from rheos.connectors.kafka.source import KafkaSource
from rheos.connectors.source_wrapper import WrappedSource
from rheos.connectors.urls import absolute
from rheos.core.connectors.contract import Source, Split
from rheos.core.connectors.datasets import common_scheme
from rheos.core.errors import ConfigurationError
from rheos.core.operators.source_split import SPLIT_ROWS
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS


@dataclass(frozen=True)
class KafkaOffsets:
    """The offset of the next record in each partition."""

    offsets: Mapping[Partition, int]

    def describe(self) -> str:
        topics = ", ".join(sorted({topic for topic, _ in self.offsets}))
        return f"offsets of {len(self.offsets)} partitions of Kafka topics {topics}"


@dataclass(frozen=True)
class ReadFiles:
    """Paths or URLs of the files that were read completely."""

    paths: frozenset[str]

    def describe(self) -> str:
        return f"{len(self.paths)} files that were read"


Positions: TypeAlias = KafkaOffsets | ReadFiles


def split_rows(source: Source, positions: Positions, max_timestamp_ms: int | None) -> pa.Table:
    """Return the state of a source that continues from these positions.

    Args:
        source: The source of the Rheos job.
        positions: The positions of the other system.
        max_timestamp_ms: The latest event time that the other system has seen, in ms since the epoch.
            Each split that has been read starts with it. None: there is no event time.

    Returns:
        The rows of the state `splits`.

    Raises:
        ConfigurationError: The source does not read these topics or files.
        InputError: A position does not exist any more.
        UnavailableError: The source's server does not answer.
    """
    latest = MIN_TIMESTAMP_MS if max_timestamp_ms is None else max_timestamp_ms
    match positions:
        case KafkaOffsets(offsets):
            if not isinstance(source, KafkaSource):
                raise _other_source(source, positions)
            named = {f"{topic}/{number}" for topic, number in offsets}
            rows = [
                _row(split, latest if split.id in named else MIN_TIMESTAMP_MS, finished=False)
                for split in source.splits_at(offsets)
            ]
        case ReadFiles(paths):
            if not isinstance(source, FileSource):
                raise _other_source(source, positions)
            read = {_plain(path) for path in paths}
            rows = [
                _row(split, latest, finished=True)
                for split in source.splits()
                if _plain(split.id) in read
            ]
        case _:
            assert_never(positions)
    return pa.Table.from_pylist(rows, SPLIT_ROWS)


def reading_until(source: Source, positions: Positions) -> Source:
    """Return a source that reads only the input before these positions.

    Args:
        source: A source that reads these topics or files: `split_rows` has accepted both.
        positions: The positions of the other system.

    Returns:
        A source to be recorded. It discovers no new splits.
    """
    match positions:
        case KafkaOffsets(offsets):
            assert isinstance(source, KafkaSource)
            return source.reading_until(offsets)
        case ReadFiles(paths):
            return _ReadFilesSource(source, frozenset(_plain(path) for path in paths))
        case _:
            assert_never(positions)


@dataclass(frozen=True, eq=False)
class _ReadFilesSource(WrappedSource):
    paths: frozenset[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "discovery_ms", None)

    def splits(self) -> list[Split]:
        return [split for split in self.source.splits() if _plain(split.id) in self.paths]


def _other_source(source: Source, positions: Positions) -> ConfigurationError:
    return ConfigurationError(
        f"the checkpoint has {positions.describe()}, but the job's source reads {source.describe()}",
        hint="the job must read the same topics or folders, with rh.kafka.source or rh.files.source",
    )


def _row(split: Split, max_ts: int, *, finished: bool) -> dict[str, object]:
    return {
        "split": split.id,
        "payload": split.payload,
        "position": None,
        "max_ts": max_ts,
        "finished": finished,
        "phase": split.phase,
    }


def _plain(path: str) -> str:
    """Return a local path without its scheme, and an URL in one form."""
    url = urlparse(path)
    if url.scheme in ("", "file"):
        return absolute(unquote(url.path) if url.scheme else path)
    return f"{common_scheme(url.scheme)}://{url.netloc}{unquote(url.path)}"
