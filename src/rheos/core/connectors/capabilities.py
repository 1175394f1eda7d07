"""Optional capabilities of a source and its readers. Each capability is a small protocol.

A source has a capability if it has the protocol's members; it need not name the protocol among its
bases. A subclass that lacks a capability of its base sets the method to None. The functions below ask a
source, and return the default if it lacks the capability. Nothing else in Rheos uses these members of a
source directly.

>>> from rheos import collection
>>> rows = collection([{"n": 1}])
>>> isinstance(rows, Discovers), discovery_ms(rows), reads_alone(rows)
(False, None, None)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

import pyarrow as pa

from rheos.core.connectors.contract import (
    ReaderContext,
    RowPlaces,
    Source,
    SourceClient,
    Split,
    SplitReader,
)
from rheos.core.errors import ConfigurationError, RheosError
from rheos.core.times import TimeColumn

# --- splits that appear while the job runs --------------------------------------------------------


@runtime_checkable
class Discovers(Protocol):
    """A source whose splits appear while the job runs.

    It may also have `discover() -> Iterable[Split]`, if that is not the same as `splits`. Its
    `discovery_phase: int` is the phase of all splits that it discovers: no split has a higher one, and
    the default is 0. Its `nothing_found() -> RheosError | None` returns the warning to log and to show
    in the status while there is no split. Such a source may start without splits.
    """

    discovery_ms: int | None
    """Time between two looks for new splits. None: this source does not look, though its class may."""


def discovery_ms(source: Source) -> int | None:
    """Return how often to look for splits; None if the source does not look for any."""
    return source.discovery_ms if isinstance(source, Discovers) else None


def discovery_phase(source: Source) -> int:
    """Return the phase of the splits that the source discovers."""
    phase: int = getattr(source, "discovery_phase", 0)
    return phase


def discovered(source: Source) -> Iterable[Split]:
    """Return all splits that exist now. Those with new ids are read, too; known ones stay.

    The driver calls this every `discovery_ms`, one call at a time, in a thread, so it may wait. What it
    raises is shown in the status; after five failures in a row the attempt fails.
    """
    found: Iterable[Split] = getattr(source, "discover", source.splits)()
    return found


def nothing_found(source: Source) -> RheosError | None:
    """Return the warning that there is no split yet; None if that needs no warning."""
    warning: RheosError | None = getattr(source, "nothing_found", _none)()
    return warning


@runtime_checkable
class ForgetsSplits(Protocol):
    """A source whose old splits are forgotten, so that state does not grow without a bound.

    A split is forgotten once it is read, no longer listed, and older by `forget_ms` than the newest
    known one. A split of that age that is discovered later is an error. `discover` then returns splits
    in the order of their times.
    """

    forget_ms: int | None
    """None: this source forgets nothing, though its class may."""

    def made_ms(self, split: Split) -> int | None:
        """Return when the split was made (ms since the epoch, by one clock for all splits), from the
        split's own data. None: it is never forgotten."""


def forget_ms(source: Source) -> int | None:
    """Return the age at which splits are forgotten; None if they never are."""
    return source.forget_ms if isinstance(source, ForgetsSplits) else None


def made_ms(source: Source, split: Split) -> int | None:
    """Return when the split was made; None if it is never forgotten."""
    return source.made_ms(split) if isinstance(source, ForgetsSplits) else None


@runtime_checkable
class HasEndlessSplits(Protocol):
    """An unbounded source some of whose splits end.

    A subtask reads a few splits that end at a time, and all endless ones at once.
    """

    def endless(self, split: Split) -> bool:
        """Return whether the split never ends."""


def is_endless(source: Source, split: Split) -> bool:
    """Return whether a split never ends: by default none ends if the source is not bounded."""
    return source.endless(split) if isinstance(source, HasEndlessSplits) else not source.bounded


@runtime_checkable
class SelectsSplits(Protocol):
    """A source that decides which splits to read when a job resumes."""

    def resumed(self, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
        """Return which of its `splits` to read, the same in every subtask.

        Args:
            splits: what `splits` returned.
            known: payloads of the splits in the checkpoint, by id, as they were then. Splits that are
                known and not listed any more are read on, too.
        """


def resumed(source: Source, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
    """Return which splits to read when a job resumes: all of them by default."""
    return source.resumed(splits, known) if isinstance(source, SelectsSplits) else splits


# --- a connection for all readers of a subtask ----------------------------------------------------


@runtime_checkable
class SharesClient(Protocol):
    """A source whose readers in one subtask share something, such as a connection."""

    def client(self, ctx: ReaderContext) -> SourceClient | None:
        """Return what they share; None if this source shares nothing, though its class may.

        Called in the mailbox before the subtask's first reader is opened, so it does not block. Not
        called if the subtask has no split.
        """


def shared_client(source: Source, ctx: ReaderContext) -> SourceClient | None:
    """Return what the readers of a subtask share; None if nothing."""
    return source.client(ctx) if isinstance(source, SharesClient) else None


# --- before and after the job ---------------------------------------------------------------------


@runtime_checkable
class StagesRows(Protocol):
    """A source whose rows must be written down before they can be read again."""

    def staged(self, folder: str) -> Source:
        """Return the source that is really read.

        Called once on the driver, before `splits`; the batch runtime does not call it.

        Args:
            folder: a path or URL that every worker reaches. It belongs to this source and lives as long
                as the job. A job that is started again finds there what it wrote before.
        """


def staged(source: Source, folder: str) -> Source:
    """Return the source that is really read: the same one by default."""
    return source.staged(folder) if isinstance(source, StagesRows) else source


@runtime_checkable
class ReleasesStaging(Protocol):
    """The result of `staged`, if something that was started there runs alongside the job."""

    def released(self) -> None:
        """End that, such as a streaming query.

        The driver calls it when the job has ended, or could not start. It may wait, and may be called
        again.
        """


def release(source: Source) -> None:
    """End what `staged` has started."""
    if isinstance(source, ReleasesStaging):
        source.released()


@runtime_checkable
class RunsQueries(Protocol):
    """A source that is staged by queries of Spark, which run alongside the job."""

    def queries(self) -> Sequence[Source]:
        """Return the parts of the source, or the source itself, that such a query stages."""


def queries(source: Source) -> Sequence[Source]:
    """Return what queries of Spark are still to stage for a source."""
    return source.queries() if isinstance(source, RunsQueries) else ()


@runtime_checkable
class HasSession(Protocol):
    """A source that is bound to a SparkSession, such as that of a DataFrame."""

    def session(self) -> Any | None:
        """Return the SparkSession; None if this source does not need one, although others of its class
        may."""


def session_of(source: Source) -> Any | None:
    """Return the SparkSession of a source; None if it needs none."""
    return source.session() if isinstance(source, HasSession) else None


@runtime_checkable
class ReadsUntilNow(Protocol):
    """A source that can stop at what exists now, for a run that another run continues."""

    def as_of_now(self) -> Source:
        """Return the source as it is now: `bounded` as before, without discovery, with the same
        positions. The reader of a split that may grow later has `CatchesUp`.

        Called once on the driver, before all else, unless all sources of the job are bounded.

        Raises:
            ConfigurationError: this source has no such moment.
        """


def until_now(source: Source) -> Source:
    """Return the source limited to what exists now. A bounded source is returned unchanged.

    Raises:
        ConfigurationError: the source cannot tell what exists now.
    """
    if isinstance(source, ReadsUntilNow):
        return source.as_of_now()
    if source.bounded:
        return source
    raise ConfigurationError(
        f"{source.describe()} does not support --until now: it cannot tell where its input ends "
        "at the moment",
        hint="watched folders and Kafka topics support it; leave out --until now, and end the job "
        "with `rheos stop`",
    )


@runtime_checkable
class IsPaced(Protocol):
    """A source that returns rows at some pace, which batch need not keep."""

    def unpaced(self) -> Source:
        """Return a source of the same rows as fast as they can be read."""


def unpaced(source: Source) -> Source:
    """Return the source as fast as it can be read."""
    return source.unpaced() if isinstance(source, IsPaced) else source


# --- limits that users should know ----------------------------------------------------------------


@runtime_checkable
class ReadsAlone(Protocol):
    """A source that nobody else may read while a job does: `rheos fork` does not."""

    def only_reader(self) -> str | None:
        """Return the reason, such as that rows go to one reader only; None if others may read."""


def reads_alone(source: Source) -> str | None:
    """Return why nobody else may read the source now; None if others may."""
    return source.only_reader() if isinstance(source, ReadsAlone) else None


@runtime_checkable
class LosesRows(Protocol):
    """A source that cannot be read again, so that a failure loses rows: `rheos explain` shows which."""

    def lost_by_failure(self) -> str | None:
        """Return which rows a failure of the job loses; None if none are lost."""


def lost_by_failure(source: Source) -> str | None:
    """Return which rows a failure of the job loses; None if the source can be read again."""
    return source.lost_by_failure() if isinstance(source, LosesRows) else None


# --- rows and columns -----------------------------------------------------------------------------


@runtime_checkable
class PrunesColumns(Protocol):
    """A source that can leave columns unread."""

    def reading(self, columns: frozenset[str]) -> Source | None:
        """Return a source of the same splits, positions and rows with fewer columns, in their order.

        Called when the program is planned, and when a split is opened.

        Args:
            columns: the names of columns to keep, at least one. More may be kept.

        Returns:
            None if all columns are read anyway, or if the content of the others matters.
        """


def reading(source: Source, columns: frozenset[str]) -> Source | None:
    """Return the source with fewer columns; None if it reads all of them anyway."""
    return source.reading(columns) if isinstance(source, PrunesColumns) else None


@runtime_checkable
class MakesRecords(Protocol):
    """A source whose user has named a class for its rows."""

    def record_class(self) -> type | None:
        """Return the class whose objects users' functions receive; None if there is no such class."""


def record_class(source: Source) -> type | None:
    """Return the class whose objects users' functions receive for the rows of a source."""
    return source.record_class() if isinstance(source, MakesRecords) else None


@runtime_checkable
class RejectsRecords(Protocol):
    """A source that can put bad records into a side output."""

    def rejected_schema(self) -> pa.Schema | None:
        """Return the schema of that side output; None if bad records fail the job."""


def rejected_schema_of(source: Source) -> pa.Schema | None:
    """Return the schema of the side output of bad records; None if the source has none."""
    return source.rejected_schema() if isinstance(source, RejectsRecords) else None


@runtime_checkable
class KnowsEarliestTimes(Protocol):
    """A source whose description tells a time that no row of a split precedes."""

    def earliest_ms(self, split: Split, on: TimeColumn) -> int | None:
        """Return a time (ms since the epoch) before which no row of the split is, by the column `on`.

        Until the split's first row, its watermark may advance to that time. None: it is unknown.
        """


def earliest_ms(source: Source, split: Split, on: TimeColumn) -> int | None:
    """Return a time before which no row of the split is; None if that is unknown."""
    return source.earliest_ms(split, on) if isinstance(source, KnowsEarliestTimes) else None


@runtime_checkable
class FixesEventTime(Protocol):
    """A source whose splits need `TimeReached` to advance, which speaks of one time column only."""

    event_time_behind: bool
    """False: `with_event_time` downstream of the source is refused, as a split without rows would never
    advance by another column."""


def allows_event_time(source: Source) -> bool:
    """Return whether `with_event_time` may follow the source: by default it may."""
    return source.event_time_behind if isinstance(source, FixesEventTime) else True


# --- readers --------------------------------------------------------------------------------------


@runtime_checkable
class ReportsLag(Protocol):
    """A reader that knows how many records it has not returned yet."""

    def lag_rows(self) -> int | None:
        """Return the number of records that exist and that `poll` has not returned, without a request.

        A metric: no result depends on it. None: it is unknown. Called about once a second, before
        `close`.
        """


def lag_rows(reader: SplitReader) -> int | None:
    """Return how many records a reader has not returned yet; None if that is unknown."""
    return reader.lag_rows() if isinstance(reader, ReportsLag) else None


@runtime_checkable
class ReportsPlaces(Protocol):
    """A reader that knows where its rows are, for `rheos why`."""

    def places(self) -> RowPlaces | None:
        """Return the places of the rows that `poll` returned last: the same ones whichever position was
        restored before. None: they are unknown. Called right after such a `poll`, and by no job."""


def places(reader: SplitReader) -> RowPlaces | None:
    """Return the places of the rows that `poll` returned last; None if they are unknown."""
    return reader.places() if isinstance(reader, ReportsPlaces) else None


@runtime_checkable
class CatchesUp(Protocol):
    """A reader of a source as of now (`ReadsUntilNow`) whose split may grow later."""

    def has_caught_up(self) -> bool:
        """Return whether `poll` has returned all that the split had at that moment. From then on `poll`
        returns `Pending()`. A split that ends needs no such method."""


def has_caught_up(reader: SplitReader) -> bool:
    """Return whether a reader has returned all that its split had when the run began."""
    return reader.has_caught_up() if isinstance(reader, CatchesUp) else False


SOURCE_CAPABILITIES: Final = (
    Discovers,
    ForgetsSplits,
    HasEndlessSplits,
    SelectsSplits,
    SharesClient,
    StagesRows,
    ReleasesStaging,
    RunsQueries,
    HasSession,
    ReadsUntilNow,
    IsPaced,
    ReadsAlone,
    LosesRows,
    PrunesColumns,
    MakesRecords,
    RejectsRecords,
    KnowsEarliestTimes,
    FixesEventTime,
)
READER_CAPABILITIES: Final = (ReportsLag, ReportsPlaces, CatchesUp)


def has_members(made: type, capability: type) -> bool:
    """Return whether objects of a class have a capability, as far as the class tells.

    >>> from rheos import connectors
    >>> has_members(connectors.Source, Discovers)
    False
    """
    members = {*vars(capability), *vars(capability).get("__annotations__", {})}
    declared = {name for each in made.__mro__ for name in vars(each).get("__annotations__", {})}
    return all(
        name.startswith("_") or name in declared or getattr(made, name, None) is not None
        for name in members
    )


def _none() -> None:
    return None
