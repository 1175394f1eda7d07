"""Optional capabilities of a source and its readers. Each capability is a small protocol.

A source has a capability if it has the protocol's members. The protocol need not be among its bases. A
subclass that lacks a capability of its base sets the method to None. The functions below call a
source's members, and return the default if it lacks the capability. Nothing else in Rheos uses these
members of a source directly.

>>> from rheos import collection
>>> rows = collection([{"n": 1}])
>>> isinstance(rows, Discovers), discovery_ms(rows), reads_alone(rows)
(False, None, None)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

import polars as pl
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
    """Time between two searches for new splits. None: this source does not search, though its class
    can."""


def discovery_ms(source: Source) -> int | None:
    """Return the interval of searches for splits; None if the source does not discover any."""
    return source.discovery_ms if isinstance(source, Discovers) else None


def discovery_phase(source: Source) -> int:
    """Return the phase of the splits that the source discovers."""
    phase: int = getattr(source, "discovery_phase", 0)
    return phase


def discovered(source: Source) -> Iterable[Split]:
    """Return all splits that exist now. The job also reads those with new ids; known ones are not
    affected.

    The driver calls this every `discovery_ms`, one call at a time, in a thread, so it may wait. If it
    raises, the status shows the error; after five failures in a row the attempt fails.
    """
    found: Iterable[Split] = getattr(source, "discover", source.splits)()
    return found


def nothing_found(source: Source) -> RheosError | None:
    """Return the warning that no split exists yet; None if that needs no warning."""
    warning: RheosError | None = getattr(source, "nothing_found", _return_none)()
    return warning


@runtime_checkable
class ForgetsSplits(Protocol):
    """A source whose old splits are forgotten, so that state does not grow without bound.

    A split is forgotten once it is read, no longer listed, and older by `forget_ms` than the newest
    known one. A split of that age that is discovered later is an error. `discover` must return splits
    in the order of their times.
    """

    forget_ms: int | None
    """Age at which splits are forgotten. None: this source forgets nothing, though its class may."""

    def made_ms(self, split: Split) -> int | None:
        """Return when a split was made, from the split's own data.

        Args:
            split: The split.

        Returns:
            Milliseconds since the epoch, by one clock for all splits. None: the split is never
            forgotten.
        """


def forget_ms(source: Source) -> int | None:
    """Return the age at which splits are forgotten; None if they never are."""
    return source.forget_ms if isinstance(source, ForgetsSplits) else None


def made_ms(source: Source, split: Split) -> int | None:
    """Return when the split was made; None if it is never forgotten."""
    return source.made_ms(split) if isinstance(source, ForgetsSplits) else None


@runtime_checkable
class HasEndlessSplits(Protocol):
    """An unbounded source in which some of the splits end.

    A subtask reads only a few splits that end at a time, but all endless splits at once.
    """

    def endless(self, split: Split) -> bool:
        """Return whether a split never ends.

        Args:
            split: The split.

        Returns:
            True if it never ends.
        """


def is_endless(source: Source, split: Split) -> bool:
    """Return whether a split never ends: by default none ends if the source is not bounded."""
    return source.endless(split) if isinstance(source, HasEndlessSplits) else not source.bounded


@runtime_checkable
class OrdersSplits(Protocol):
    """A source in which some splits follow others, whose rows are before theirs."""

    orders_splits: bool
    """Whether some splits follow others. False: no split of this source does."""

    def read_after(self, split: Split) -> Sequence[str]:
        """Return the ids of the splits that are read to their ends before a split is opened.

        Ids of unknown splits count as read. No split follows itself, by whatever path.

        Args:
            split: The split.

        Returns:
            The ids. They depend on the split's own data alone.
        """


def orders_splits(source: Source) -> bool:
    """Return whether some splits of the source follow others."""
    return source.orders_splits if isinstance(source, OrdersSplits) else False


def read_after(source: Source, split: Split) -> frozenset[str]:
    """Return the ids of the splits that a split follows."""
    if isinstance(source, OrdersSplits) and source.orders_splits:
        return frozenset(source.read_after(split))
    return frozenset()


@runtime_checkable
class SelectsSplits(Protocol):
    """A source that selects the splits to read when a job resumes."""

    def resumed(self, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
        """Return which of the listed `splits` to read. The result is the same in every subtask.

        Args:
            splits: result of the source's `splits`.
            known: payloads of the splits at the time of the checkpoint, by id. The job also continues
                to read splits that are known but no longer listed.

        Returns:
            The splits to read.
        """


def resumed(source: Source, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
    """Return which splits to read when a job resumes: all of them by default."""
    return source.resumed(splits, known) if isinstance(source, SelectsSplits) else splits


# --- a connection for all readers of a subtask ----------------------------------------------------


@runtime_checkable
class SharesClient(Protocol):
    """A source whose readers in one subtask share something, such as a connection."""

    def client(self, ctx: ReaderContext) -> SourceClient | None:
        """Return the client that the readers of a subtask share.

        Called in the mailbox before the subtask's first reader is opened, so it does not block. Not
        called if the subtask has no split.

        Args:
            ctx: The environment of the client.

        Returns:
            The client; None if this source shares nothing, though its class may.
        """


def shared_client(source: Source, ctx: ReaderContext) -> SourceClient | None:
    """Return what the readers of a subtask share; None if nothing."""
    return source.client(ctx) if isinstance(source, SharesClient) else None


# --- before and after the job ---------------------------------------------------------------------


@runtime_checkable
class StagesRows(Protocol):
    """A source whose rows must be stored before they can be replayed."""

    def staged(self, folder: str) -> Source:
        """Return the source that is really read.

        Called once on the driver, before `splits`; the batch runtime does not call it.

        Args:
            folder: a path or URL that every worker can access. It belongs to this source and exists as
                long as the job. A restarted job finds its earlier files there.

        Returns:
            The source.
        """


def staged(source: Source, folder: str) -> Source:
    """Return the source that is really read: the same one by default."""
    return source.staged(folder) if isinstance(source, StagesRows) else source


@runtime_checkable
class ReleasesStaging(Protocol):
    """The result of `staged`, if it started something that runs alongside the job."""

    def released(self) -> None:
        """Release what `staged` started, such as a streaming query.

        Called when the job has ended, or could not start. The call may wait, and may be repeated.
        """


def release(source: Source) -> None:
    """Release what `staged` started."""
    if isinstance(source, ReleasesStaging):
        source.released()


@runtime_checkable
class RunsQueries(Protocol):
    """A source whose rows are staged by Spark queries, which run alongside the job."""

    def queries(self) -> Sequence[Source]:
        """Return the parts of the source (or the source itself) that a Spark query stages."""


def queries(source: Source) -> Sequence[Source]:
    """Return the parts of a source that Spark queries still have to stage."""
    return source.queries() if isinstance(source, RunsQueries) else ()


@runtime_checkable
class HasSession(Protocol):
    """A source that is bound to a SparkSession, such as that of a DataFrame."""

    def session(self) -> Any | None:
        """Return the SparkSession; None if this source does not need one, though its class may."""


def session_of(source: Source) -> Any | None:
    """Return the SparkSession of a source; None if it needs none."""
    return source.session() if isinstance(source, HasSession) else None


# --- rows that Spark reads in a batch job ---------------------------------------------------------


@runtime_checkable
class HasDataFrame(Protocol):
    """A source of the rows of a Spark DataFrame, which is a part of the plan of a batch job.

    The batch runtime calls none of `splits`, `open` and `staged`. A DataFrame has no order, so none of
    its rows is late.
    """

    def dataframe(self) -> Any | None:
        """Return the `pyspark.sql.DataFrame`, with the columns of `schema` in their order; None if this
        source does not read one, though its class may."""


def dataframe_of(source: Source) -> Any | None:
    """Return the DataFrame that a source reads; None for other sources."""
    return source.dataframe() if isinstance(source, HasDataFrame) else None


class UnfitForSparkError(Exception):
    """An error with the reason why Spark may not read a source's files itself."""


@runtime_checkable
class StoresParquet(Protocol):
    """A source whose splits are Parquet files, which Spark may read instead in a batch job."""

    def parquet_files(self, splits: Sequence[Split]) -> Sequence[str]:
        """Return the file of each split. It has the columns of `schema`, and exactly the split's rows.

        Args:
            splits: result of the source's `splits`.

        Returns:
            Absolute paths or URLs.

        Raises:
            UnfitForSparkError: The source's own reader must read them. The message is the reason, for
                `explain`.
        """


def parquet_files(source: Source, splits: Sequence[Split]) -> Sequence[str]:
    """Return the Parquet file of each split. Raise UnfitForSparkError if Spark may not read them."""
    if isinstance(source, StoresParquet):
        return source.parquet_files(splits)
    raise UnfitForSparkError("Spark reads only files and DataFrames")


@runtime_checkable
class ReadsUntilNow(Protocol):
    """A source that can be limited to the rows that exist now, for a run that a later run continues."""

    def as_of_now(self) -> Source:
        """Return the source limited to the rows that exist now. `bounded` and the positions stay the
        same, and the result discovers no splits. The reader of a split that may grow later implements
        `CatchesUp`.

        Called once on the driver, before all else, unless all sources of the job are bounded.

        Raises:
            ConfigurationError: this source cannot be limited so.
        """


def until_now(source: Source) -> Source:
    """Return the source limited to the rows that exist now. A bounded source is returned unchanged.

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
    """A source that emits rows at a limited rate, which batch runs ignore."""

    def unpaced(self) -> Source:
        """Return a source of the same rows without the rate limit."""


def unpaced(source: Source) -> Source:
    """Return the source without its rate limit."""
    return source.unpaced() if isinstance(source, IsPaced) else source


# --- limits that users should know ----------------------------------------------------------------


@runtime_checkable
class ReadsAlone(Protocol):
    """A source that no other program may read while a job reads it. `rheos fork` does not read it."""

    def only_reader(self) -> str | None:
        """Return why no other program may read the source, such as that only one reader gets each row.
        Return None if others may read."""


def reads_alone(source: Source) -> str | None:
    """Return why no other program may read the source now; None if others may."""
    return source.only_reader() if isinstance(source, ReadsAlone) else None


@runtime_checkable
class LosesRows(Protocol):
    """A source that cannot be replayed, so that a failure loses rows. `rheos explain` shows which."""

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
class KnowsSplitValues(Protocol):
    """A source that knows the values of some columns for all rows of a split before it reads the rows.
    An example are values in the names of folders.

    It may also have `bounded_columns: Sequence[str]`: columns of whose values it knows bounds in a
    split, such as from the statistics of a file.
    """

    split_columns: Sequence[str]
    """Columns with one value in each split. May be empty."""

    def skipping(self, condition: pl.Expr) -> Source:
        """Return a source of the same splits and positions that skips some splits: their readers are at
        the end at once.

        Args:
            condition: a condition on these columns, and on those with bounds. The program drops the
                rows for which it is false or null.

        Returns:
            The source. It may read splits of such rows, too.
        """


def split_columns(source: Source) -> Sequence[str]:
    """Return the columns whose values the source knows for each split."""
    return source.split_columns if isinstance(source, KnowsSplitValues) else ()


def bounded_columns(source: Source) -> Sequence[str]:
    """Return the columns of whose values the source knows bounds in each split."""
    found: Sequence[str] = getattr(source, "bounded_columns", ())
    return found


def skipping(source: Source, condition: pl.Expr) -> Source:
    """Return the source without the rows of splits that do not fulfil the condition."""
    return source.skipping(condition) if isinstance(source, KnowsSplitValues) else source


@runtime_checkable
class MakesRecords(Protocol):
    """A source whose user has named a class for its rows."""

    def record_class(self) -> type | None:
        """Return the class of the records that users' functions receive; None if there is no such
        class."""


def record_class(source: Source) -> type | None:
    """Return the class of the records that users' functions receive for the rows of a source."""
    return source.record_class() if isinstance(source, MakesRecords) else None


@runtime_checkable
class RejectsRecords(Protocol):
    """A source that can put bad records into a side output."""

    def rejected_schema(self) -> pa.Schema | None:
        """Return the schema of that side output; None if bad records fail the job."""


def rejected_schema_of(source: Source) -> pa.Schema | None:
    """Return the schema of the side output of bad records; None if bad records fail the job."""
    return source.rejected_schema() if isinstance(source, RejectsRecords) else None


@runtime_checkable
class KnowsEarliestTimes(Protocol):
    """A source whose description contains a lower bound of the times in a split."""

    def earliest_ms(self, split: Split, on: TimeColumn) -> int | None:
        """Return a lower bound of the times of a split's rows.

        Until the split's first row, its watermark may advance to that time.

        Args:
            split: The split.
            on: The column of the times.

        Returns:
            Milliseconds since the epoch; None if no bound is known.
        """


def earliest_ms(source: Source, split: Split, on: TimeColumn) -> int | None:
    """Return a time such that no row of the split is earlier; None if no such time is known."""
    return source.earliest_ms(split, on) if isinstance(source, KnowsEarliestTimes) else None


@runtime_checkable
class FixesEventTime(Protocol):
    """A source whose splits need `TimeReached` to advance. Such a time belongs to one time column
    only."""

    event_time_behind: bool
    """Whether `with_event_time` may follow the source. With another time column, a split without rows
    would never advance, so the source may forbid it."""


def allows_event_time(source: Source) -> bool:
    """Return whether `with_event_time` may follow the source; by default it may."""
    return source.event_time_behind if isinstance(source, FixesEventTime) else True


# --- readers --------------------------------------------------------------------------------------


@runtime_checkable
class ReportsLag(Protocol):
    """A reader that knows how many records it still has to return."""

    def lag_rows(self) -> int | None:
        """Return the number of records that `poll` has not returned yet, without sending a request.

        The number is only a metric; no result depends on it. None: it is unknown. Called about once a
        second, before `close`.
        """


def lag_rows(reader: SplitReader) -> int | None:
    """Return how many records a reader still has to return; None if that is unknown."""
    return reader.lag_rows() if isinstance(reader, ReportsLag) else None


@runtime_checkable
class ReportsPlaces(Protocol):
    """A reader that knows the coordinates of its rows, for `rheos why`."""

    def places(self) -> RowPlaces | None:
        """Return the coordinates of the rows that `poll` returned last, independent of which position
        was restored before. None: they are unknown. Only diagnosis calls this method, right after such
        a `poll`; jobs never do."""


def places(reader: SplitReader) -> RowPlaces | None:
    """Return the coordinates of the rows that `poll` returned last; None if they are unknown."""
    return reader.places() if isinstance(reader, ReportsPlaces) else None


@runtime_checkable
class CatchesUp(Protocol):
    """A reader of a source that is limited by `ReadsUntilNow`, and whose split may grow later."""

    def has_caught_up(self) -> bool:
        """Return whether `poll` has returned all that the split had when the run began. From then on
        `poll` returns `Pending()`. A split that ends needs no such method."""


def has_caught_up(reader: SplitReader) -> bool:
    """Return whether a reader has returned all that its split had when the run began."""
    return reader.has_caught_up() if isinstance(reader, CatchesUp) else False


# --- programs that a source outlives --------------------------------------------------------------


@runtime_checkable
class StopsJob(Protocol):
    """A source whose readers may be unable to continue with the program that runs, because the program
    does not know the columns that the source now has."""

    may_stop: bool
    """Whether readers of this source may stop the job. They then have `stop_reason`."""


def may_stop(source: Source) -> bool:
    """Return whether readers of the source may stop the job."""
    return source.may_stop if isinstance(source, StopsJob) else False


@runtime_checkable
class HasStopReason(Protocol):
    """A reader of a source that may stop the job."""

    def stop_reason(self) -> str | None:
        """Return why the job must stop at the reader's position, for its user. From then on `poll`
        returns `Pending()`. None while it can continue. Started again, the job reads on from that
        position."""


def stop_reason(reader: SplitReader) -> str | None:
    """Return why the job must stop at the reader's position; None if it can continue."""
    return reader.stop_reason() if isinstance(reader, HasStopReason) else None


SOURCE_CAPABILITIES: Final = (
    Discovers,
    ForgetsSplits,
    HasEndlessSplits,
    OrdersSplits,
    SelectsSplits,
    SharesClient,
    StagesRows,
    ReleasesStaging,
    RunsQueries,
    HasSession,
    HasDataFrame,
    StoresParquet,
    ReadsUntilNow,
    IsPaced,
    ReadsAlone,
    LosesRows,
    PrunesColumns,
    KnowsSplitValues,
    MakesRecords,
    RejectsRecords,
    KnowsEarliestTimes,
    FixesEventTime,
    StopsJob,
)
READER_CAPABILITIES: Final = (ReportsLag, ReportsPlaces, CatchesUp, HasStopReason)


def has_members(made: type, capability: type) -> bool:
    """Return whether objects of a class have a capability, as far as the class itself shows.

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


def _return_none() -> None:
    return None
