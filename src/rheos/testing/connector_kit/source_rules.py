"""The rules that every source must follow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rheos.core.connectors import capabilities
from rheos.core.connectors.contract import EndOfSplit, Source, Split
from rheos.core.safe_strings import named_error
from rheos.testing.connector_kit.capability_rules import CAPABILITY_RULES, ENDS, UNIQUE
from rheos.testing.connector_kit.reading import SplitReading
from rheos.testing.connector_kit.rules import broken, checking, sent, some_of

SENT = "a source can be sent to a worker"
LISTED = "each listing returns the same splits, in the same order"
SAME = "a split returns the same rows at each reading, for any max_rows"
GOES_ON = "a reader resumes at a position with exactly the rows not returned yet"
PLACES = "each row has a position, which does not depend on the restored position"
FINAL = "a reader at the end of its split returns no more rows"
CLOSES = "a reader can be closed at any time, also after an error"

_POLLS_BEFORE_CLOSE = 3


def check_source(
    source: Source,
    *,
    endless_rows: int = 100,
    max_rows: Sequence[int] = (1, 7, 1000),
    positions: int = 20,
    patience_s: float = 60.0,
) -> dict[str, list[dict[str, Any]]]:
    """Check a source against its contract, which `help(rh.connectors)` describes.

    The input should be small, and must not change during the check.

    ```python
    found = testing.check_source(rh.collection([{"n": 1}, {"n": 2}]))
    assert list(found.values()) == [[{"n": 1}, {"n": 2}]]
    ```

    Args:
        source: The source; one that the driver stages, after staging.
        endless_rows: Number of rows to read of each split that never ends. Each such split must have
            them.
        max_rows: The values of `poll(max_rows)`, one for each reading of all splits.
        positions: Maximum number of positions of a reading from which new readers continue.
        patience_s: Maximum real time in seconds that a reader may return no row.

    Returns:
        The rows of each split by its id, for comparison with the expected ones.

    Raises:
        BrokenRuleError: The source breaks a rule. The message has the rule and the place.
    """
    trial = Trial(source, endless_rows, max_rows, positions, patience_s)
    for rule, check in dict.fromkeys([*_RULES.items(), *CAPABILITY_RULES.values()]):
        with checking(rule):
            check(trial)
    return {split_id: reading.rows for split_id, reading in trial.readings.items()}


@dataclass(frozen=True)
class _Mark:
    """A moment between two polls."""

    rows: int
    rejected: int
    position: bytes


@dataclass
class _Read:
    """One reading of a split: to its end, or up to a limit."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    rejected: list[dict[str, Any]] = field(default_factory=list)
    places: list[dict[str, Any]] = field(default_factory=list)
    """Coordinates of the rows; empty if the reader does not report them."""
    marks: list[_Mark] = field(default_factory=list)


@dataclass
class Trial:
    """A source under test, with the first reading of each split."""

    source: Source
    endless_rows: int
    max_rows: Sequence[int]
    positions: int
    patience_s: float
    readings: dict[str, _Read] = field(default_factory=dict)
    """First reading of each split, by the split's id."""

    def splits(self) -> Sequence[Split]:
        return self.source.splits()

    def limit(self, split: Split) -> int | None:
        return self.endless_rows if capabilities.is_endless(self.source, split) else None

    def open(
        self, split: Split, position: bytes | None = None, *, io_fails: bool = False
    ) -> SplitReading:
        return SplitReading(self.source, split, position, self.patience_s, io_fails=io_fails)

    def of(self, source: Source) -> Trial:
        """Return a trial of another source, read in the same way."""
        return replace(self, source=source, readings={})

    def read(
        self,
        split: Split,
        position: bytes | None,
        max_rows: int,
        limit: int | None,
        *,
        until_now: bool = False,
    ) -> _Read:
        """Read a split up to `limit` rows, to its end, or until the reader has caught up."""
        read = _Read()
        with self.open(split, position) as reading:
            while True:
                reading.reader.position()  # Asking changes nothing.
                at = reading.reader.position()
                read.marks.append(_Mark(len(read.rows), len(reading.rejected), at))
                left = max_rows if limit is None else min(max_rows, limit - len(read.rows))
                if left <= 0:
                    break
                polled = reading.poll(left, until_now=until_now)
                if isinstance(polled, EndOfSplit):
                    at = reading.reader.position()
                    read.marks.append(_Mark(len(read.rows), len(reading.rejected), at))
                    break
                read.rows += polled.to_pylist()
                if polled.num_rows and (places := capabilities.places(reading.reader)) is not None:
                    read.places += [{places.unit: place} for place in places.of_rows]
                    if len(read.places) != len(read.rows):
                        counts = f"{len(places.of_rows)} positions for {polled.num_rows} rows"
                        broken(PLACES, f"split {split.id!r} has returned {counts}")
            read.rejected = reading.rejected
        return read


def _is_sent(trial: Trial) -> None:
    copy = sent(trial.source, SENT)
    if list(copy.splits()) != list(trial.splits()):
        broken(SENT, "the source that arrives there lists other splits")
    trial.source = copy


def _is_listed_alike(trial: Trial) -> None:
    first, second = list(trial.splits()), list(trial.splits())
    if first != second:
        broken(LISTED, f"first {some_of(first)}, then {some_of(second)}")


def _has_unique_ids(trial: Trial) -> None:
    ids = [split.id for split in trial.splits()]
    twice = sorted({split_id for split_id in ids if ids.count(split_id) > 1})
    if twice:
        broken(UNIQUE, f"several splits have the id {some_of(twice)}")


def _reads_alike(trial: Trial) -> None:
    for split in trial.splits():
        limit = trial.limit(split)
        first = trial.readings[split.id] = trial.read(split, None, max(trial.max_rows), limit)
        if limit is not None and len(first.rows) < limit:
            broken(ENDS, f"split {split.id!r} is declared endless, but has ended")
        for max_rows in trial.max_rows:
            again = trial.read(split, None, max_rows, limit)
            where = f"split {split.id!r} with max_rows={max_rows}"
            _compare(SAME, where, first.rows, again.rows)
            if limit is None:
                _compare(SAME, f"{where}, rejected rows", first.rejected, again.rejected)


def _goes_on(trial: Trial) -> None:
    for split in trial.splits():
        limit = trial.limit(split)
        first = trial.readings[split.id]
        for number, max_rows in enumerate(trial.max_rows):
            marks = trial.read(split, None, max_rows, limit).marks
            then = trial.max_rows[(number + 1) % len(trial.max_rows)]
            for mark in _spread(marks, trial.positions):
                left = None if limit is None else limit - mark.rows
                rest = trial.read(split, mark.position, then, left)
                where = (
                    f"split {split.id!r}, from the position after {mark.rows} rows, read with "
                    f"max_rows={max_rows},"
                )
                rule = FINAL if mark is marks[-1] and limit is None else GOES_ON
                _compare(rule, where, first.rows[mark.rows :], rest.rows)
                _compare(PLACES, where, first.places[mark.rows :], rest.places)
                if limit is None:
                    _compare(
                        rule,
                        f"{where}, rejected rows",
                        first.rejected[mark.rejected :],
                        rest.rejected,
                    )


def _closes(trial: Trial) -> None:
    for split in trial.splits()[:1]:
        for polls, io_fails in ((0, False), (1, False), (_POLLS_BEFORE_CLOSE, True)):
            reading = trial.open(split, io_fails=io_fails)
            with contextlib.suppress(Exception):  # That is the error after which it is closed.
                for _ in range(polls):
                    reading.reader.poll(1)
            try:
                reading.close()
            except Exception as error:
                when = "after its I/O failed" if io_fails else f"after {polls} polls"
                broken(CLOSES, f"{when} close raises {named_error(error)}")


_RULES: Mapping[str, Callable[[Trial], None]] = {
    LISTED: _is_listed_alike,
    UNIQUE: _has_unique_ids,
    SENT: _is_sent,
    SAME: _reads_alike,
    GOES_ON: _goes_on,
    CLOSES: _closes,
}


def _compare(
    rule: str, where: str, wanted: Sequence[dict[str, Any]], got: Sequence[dict[str, Any]]
) -> None:
    # By their words: a NaN is itself.
    pairs = zip(map(repr, wanted), map(repr, got), strict=False)
    first = next(
        (row for row, (one, other) in enumerate(pairs) if one != other), min(len(wanted), len(got))
    )
    if first < max(len(wanted), len(got)):
        broken(
            rule,
            f"{where} returns {some_of(list(got[first:]))} instead of {some_of(list(wanted[first:]))}"
            + (f", after {first} correct rows" if first else ""),
        )


def _spread(marks: Sequence[_Mark], at_most: int) -> Sequence[_Mark]:
    """Return at most this number of marks, evenly spaced, including the first and the last."""
    if len(marks) <= at_most:
        return marks
    last = len(marks) - 1
    steps = max(at_most - 1, 1)
    return [marks[step * last // steps] for step in range(steps + 1)]
