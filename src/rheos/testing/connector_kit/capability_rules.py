"""Rules for a source's capabilities beyond the basic contract: one entry of a table for each
capability."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from pyarrow import parquet

from rheos.core.connectors import capabilities
from rheos.core.connectors.contract import Source
from rheos.core.safe_strings import named_error
from rheos.core.times import TimeColumn
from rheos.testing.connector_kit.rules import broken, some_of

if TYPE_CHECKING:
    from rheos.testing.connector_kit.source_rules import Trial

DISCOVERS = "a source that discovers is not bounded, and no split has a phase above discovery_phase"
UNIQUE = "the ids of splits are unique"
ENDS = "the splits of a bounded source end"
FORGETS = "a source that forgets splits lists them in the order of made_ms, which never changes"
ORDERS = "splits follow others without a cycle"
SELECTS = "resumed returns some of the splits that it was passed"
UNTIL_NOW = "available_now has the same positions and rows, is bounded, and discovers nothing"
UNPACED = "an unpaced source has the same rows"
REASONS = "a reason is a non-empty string, or None"
PRUNES = "a source with fewer columns has the same splits, rows and order of columns"
SKIPS = "a source that skips splits has the same splits, and all rows that fulfil the condition"
RECORDS = "record_class returns a class or None, and rejected_schema a schema or None"
EARLIEST = "no row of a split is before earliest_ms"
TIME_COLUMN = "event_time_behind is true or false"
PARQUET = "parquet_files returns for each split a file with exactly its rows"
RELEASES = "released can be called again"
STOPS = "may_stop is true or false, and a reader has a reason to stop only if it is true"
LAG = "lag_rows is a number of at least 0, or None"


def _discovers(trial: Trial) -> None:
    source = trial.source
    if capabilities.discovery_ms(source) is None:
        return
    if source.bounded:
        broken(DISCOVERS, "bounded is true")
    found = list(capabilities.discovered(source))
    phase = capabilities.discovery_phase(source)
    for split in [*trial.splits(), *found]:
        if split.phase > phase:
            broken(
                DISCOVERS,
                f"split {split.id!r} has phase {split.phase}, but discovery_phase is {phase}",
            )
    ids = [split.id for split in found]
    if len(set(ids)) < len(ids):
        broken(UNIQUE, f"discover has returned {some_of(sorted(ids))}")


def _forgets(trial: Trial) -> None:
    source = trial.source
    if capabilities.forget_ms(source) is None:
        return
    found = list(capabilities.discovered(source))
    made = [capabilities.made_ms(source, split) for split in found]
    if made != [capabilities.made_ms(source, split) for split in found]:
        broken(FORGETS, "made_ms has returned two times for one split")
    times = [time for time in made if time is not None]
    if times != sorted(times):
        broken(FORGETS, f"discover has returned splits made at {some_of(times)}")


def _ends(trial: Trial) -> None:
    if not trial.source.bounded:
        return
    for split in trial.splits():
        if capabilities.is_endless(trial.source, split):
            broken(ENDS, f"split {split.id!r} is declared endless")


def _orders(trial: Trial) -> None:
    left = {split.id: capabilities.read_after(trial.source, split) for split in trial.splits()}
    while left:
        ready = {id for id, after in left.items() if not after & left.keys()}
        if not ready:
            broken(ORDERS, f"each of {some_of(sorted(left))} follows another of them")
        left = {id: after for id, after in left.items() if id not in ready}


def _selects(trial: Trial) -> None:
    splits = list(trial.splits())
    for known in (splits, splits[:1]):
        payloads = {split.id: split.payload for split in known}
        selected = list(capabilities.resumed(trial.source, splits, payloads))
        if not {split.id for split in selected} <= {split.id for split in splits}:
            broken(SELECTS, f"it has returned {some_of(selected)}")


def _reads_until_now(trial: Trial) -> None:
    if not isinstance(trial.source, capabilities.ReadsUntilNow):
        return
    now = trial.source.as_of_now()
    if capabilities.discovery_ms(now) is not None:
        broken(UNTIL_NOW, f"discovery_ms is {capabilities.discovery_ms(now)}")
    if now.bounded != trial.source.bounded:
        broken(UNTIL_NOW, f"bounded is {now.bounded}")
    if now.positions() != trial.source.positions():
        broken(UNTIL_NOW, f"positions are {now.positions()!r}, not {trial.source.positions()!r}")
    for split in now.splits():
        rows = trial.of(now).read(split, None, max(trial.max_rows), None, until_now=True).rows
        known = trial.readings.get(split.id)
        if known is not None:
            _same_rows(UNTIL_NOW, f"split {split.id!r}", known.rows, rows[: len(known.rows)])


def _is_unpaced(trial: Trial) -> None:
    if isinstance(trial.source, capabilities.IsPaced):
        _reads_as(trial, trial.source.unpaced(), UNPACED, trial.source.schema.names)


def _reasons(trial: Trial) -> None:
    for name, reason in (
        ("only_reader", capabilities.reads_alone(trial.source)),
        ("lost_by_failure", capabilities.lost_by_failure(trial.source)),
    ):
        if reason is not None and not (isinstance(reason, str) and reason.strip()):
            broken(REASONS, f"{name} has returned {reason!r}")


def _prunes(trial: Trial) -> None:
    names = trial.source.schema.names
    for name in names:
        less = capabilities.reading(trial.source, frozenset([name]))
        if less is None:
            continue
        kept = less.schema.names
        if name not in kept or kept != [each for each in names if each in kept]:
            broken(PRUNES, f"for the column {name!r} it has {', '.join(kept) or 'none'}")
        _reads_as(trial, less, PRUNES, kept)


def _skips(trial: Trial) -> None:
    splits = list(trial.splits())
    for name in capabilities.split_columns(trial.source):
        for reading in trial.readings.values():
            values = {row[name] for row in reading.rows}
            if len(values) > 1:
                broken(SKIPS, f"a split has {some_of(sorted(map(repr, values)))} in column {name!r}")
            for value in values:
                skipping = capabilities.skipping(trial.source, pl.col(name).eq_missing(pl.lit(value)))
                if list(skipping.splits()) != splits:
                    broken(SKIPS, "it lists other splits")
                for split in splits:
                    rows = [row for row in trial.readings[split.id].rows if row[name] == value]
                    found = (
                        trial.of(skipping)
                        .read(split, None, max(trial.max_rows), trial.limit(split))
                        .rows
                    )
                    kept = [row for row in found if row[name] == value]
                    _same_rows(SKIPS, f"split {split.id!r}", rows, kept)
    for name in capabilities.bounded_columns(trial.source):
        for value in _some_values(trial, name):
            _keeps_rows(trial, name, value)


def _some_values(trial: Trial, name: str) -> list[Any]:
    """Return the first and the last value of a column in each split."""
    found = []
    for reading in trial.readings.values():
        values = [row[name] for row in reading.rows if row[name] is not None]
        found += [*values[:1], *values[-1:]]
    return found


def _keeps_rows(trial: Trial, name: str, value: Any) -> None:
    """Check that a source that skips splits by bounds still has all rows with a value."""
    skipping = capabilities.skipping(trial.source, pl.col(name) == pl.lit(value))
    for split in trial.splits():
        rows = [row for row in trial.readings[split.id].rows if row[name] == value]
        found = trial.of(skipping).read(split, None, max(trial.max_rows), trial.limit(split)).rows
        _same_rows(SKIPS, f"split {split.id!r}", rows, [row for row in found if row[name] == value])


def _makes_records(trial: Trial) -> None:
    made = capabilities.record_class(trial.source)
    if made is not None and not isinstance(made, type):
        broken(RECORDS, f"record_class has returned {made!r}")
    rejected = capabilities.rejected_schema_of(trial.source)
    if rejected is not None and not isinstance(rejected, pa.Schema):
        broken(RECORDS, f"rejected_schema has returned {rejected!r}")


def _knows_earliest(trial: Trial) -> None:
    columns = [each for each in trial.source.schema if pa.types.is_timestamp(each.type)]
    for column in columns:
        for split in trial.splits():
            earliest = capabilities.earliest_ms(trial.source, split, TimeColumn(column.name))
            values = [row[column.name] for row in trial.readings[split.id].rows]
            times = pa.array(values, column.type).drop_null().cast(pa.timestamp("ms")).cast(pa.int64())
            before = [time for time in times.to_pylist() if earliest is not None and time < earliest]
            if before:
                broken(EARLIEST, f"split {split.id!r} has a row at {before[0]} before {earliest} ms")


def _fixes_event_time(trial: Trial) -> None:
    allowed: Any = capabilities.allows_event_time(trial.source)
    if not isinstance(allowed, bool):
        broken(TIME_COLUMN, f"it is {allowed!r}")


def _stops_job(trial: Trial) -> None:
    may_stop: Any = capabilities.may_stop(trial.source)
    if not isinstance(may_stop, bool):
        broken(STOPS, f"may_stop is {may_stop!r}")
    for split in trial.splits()[:1]:
        with trial.open(split) as reading:
            reason: Any = capabilities.stop_reason(reading.reader)
            if reason is not None and not (may_stop and isinstance(reason, str)):
                broken(STOPS, f"a new reader of split {split.id!r} has the reason {reason!r}")


def _reports_lag(trial: Trial) -> None:
    for split in trial.splits()[:1]:
        with trial.open(split) as reading:
            for asked in range(2):
                lag: Any = capabilities.lag_rows(reading.reader)
                if lag is not None and not (isinstance(lag, int) and lag >= 0):
                    broken(LAG, f"split {split.id!r} has returned {lag!r} after {asked} polls")
                reading.reader.poll(1)


def _stores_parquet(trial: Trial) -> None:
    names, splits = trial.source.schema.names, trial.splits()
    try:
        files = capabilities.parquet_files(trial.source, splits)
    except capabilities.UnfitForSparkError:
        return
    if len(files) != len(splits):
        broken(PARQUET, f"it has returned {len(files)} files for {len(splits)} splits")
    for split, file in zip(splits, files, strict=True):
        found = parquet.read_table(file, columns=names).cast(trial.source.schema).to_pylist()
        rows = [{name: row[name] for name in names} for row in trial.readings[split.id].rows]
        if found != rows:
            broken(PARQUET, f"{file} has other rows than split {split.id!r}")


def _releases(trial: Trial) -> None:
    for _ in range(2):
        try:
            capabilities.release(trial.source)
        except Exception as error:
            broken(RELEASES, f"it has raised {named_error(error)}")


def _read_with_others(trial: Trial) -> None:
    """Check nothing: the readings of other rules use the capability. Clients are shared, and places and
    rows are compared."""


CAPABILITY_RULES: Mapping[type, tuple[str, Callable[[Trial], None]]] = {
    capabilities.Discovers: (DISCOVERS, _discovers),
    capabilities.ForgetsSplits: (FORGETS, _forgets),
    capabilities.HasEndlessSplits: (ENDS, _ends),
    capabilities.OrdersSplits: (ORDERS, _orders),
    capabilities.SelectsSplits: (SELECTS, _selects),
    capabilities.ReadsUntilNow: (UNTIL_NOW, _reads_until_now),
    capabilities.CatchesUp: (UNTIL_NOW, _read_with_others),
    capabilities.IsPaced: (UNPACED, _is_unpaced),
    capabilities.ReadsAlone: (REASONS, _reasons),
    capabilities.LosesRows: (REASONS, _reasons),
    capabilities.PrunesColumns: (PRUNES, _prunes),
    capabilities.KnowsSplitValues: (SKIPS, _skips),
    capabilities.MakesRecords: (RECORDS, _makes_records),
    capabilities.RejectsRecords: (RECORDS, _makes_records),
    capabilities.KnowsEarliestTimes: (EARLIEST, _knows_earliest),
    capabilities.FixesEventTime: (TIME_COLUMN, _fixes_event_time),
    capabilities.StopsJob: (STOPS, _stops_job),
    capabilities.HasStopReason: (STOPS, _stops_job),
    capabilities.ReportsLag: (LAG, _reports_lag),
    capabilities.ReportsPlaces: ("places", _read_with_others),
    capabilities.SharesClient: ("client", _read_with_others),
    capabilities.ReleasesStaging: (RELEASES, _releases),
    capabilities.RunsQueries: ("queries", _read_with_others),
    capabilities.HasSession: ("session", _read_with_others),
    capabilities.HasDataFrame: ("dataframe", _read_with_others),
    capabilities.StoresParquet: (PARQUET, _stores_parquet),
    capabilities.StagesRows: ("staged", _read_with_others),  # The kit is passed what is staged.
}
"""Rule of each capability. The rules run after the basic ones, with whose readings they compare."""


def _reads_as(trial: Trial, other: Source, rule: str, columns: Sequence[str]) -> None:
    """Check that another source has the same splits, and the same rows with these columns."""
    if [split.id for split in other.splits()] != [split.id for split in trial.splits()]:
        broken(rule, f"its splits are {some_of(list(other.splits()))}")
    for split in other.splits():
        rows = trial.readings[split.id].rows
        wanted = [{name: row[name] for name in columns} for row in rows]
        read = trial.of(other).read(split, None, max(trial.max_rows), trial.limit(split))
        _same_rows(rule, f"split {split.id!r}", wanted, read.rows)


def _same_rows(rule: str, where: str, wanted: list[Any], got: list[Any]) -> None:
    if list(map(repr, wanted)) != list(map(repr, got)):  # By `repr`, a NaN equals itself.
        broken(rule, f"{where} has {some_of(got)} instead of {some_of(wanted)}")
