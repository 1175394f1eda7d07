"""The open splits of a job's sources, as its metrics have them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from rheos.core.metrics import declarations as f
from rheos.core.metrics.declarations import Metric
from rheos.core.protocol.readings import Reading
from rheos.runtimes.health.moment import number


@dataclass(frozen=True)
class SplitStanding:
    """An open split of a source that leads to the operator."""

    source: str
    """The source's name."""
    split: str
    subtask: int
    watermark_ms: int | None
    """None before its first row, and where it is idle."""
    stands_ms: int
    """How long its event time has not advanced."""
    idle: bool


def open_splits(
    names: Mapping[str, str], of: Callable[[Metric], Iterable[Reading]]
) -> Iterator[tuple[str, SplitStanding]]:
    """Yield all splits that are read, each with the id of its source.

    Args:
        names: the names of operators, by id.
        of: returns the readings of a metric.
    """
    marks = {reading.at: reading for reading in of(f.SPLIT_WATERMARK)}
    idle = {reading.at: reading for reading in of(f.SPLIT_IDLE)}
    for stands in of(f.SPLIT_STANDS):
        source, split, subtask = stands.at
        mark, is_idle = marks.get(stands.at), idle.get(stands.at)
        yield (
            source,
            SplitStanding(
                names.get(source, source),
                split,
                int(subtask),
                None if mark is None else int(number(mark)),
                int(number(stands)),
                is_idle is not None and bool(number(is_idle)),
            ),
        )
