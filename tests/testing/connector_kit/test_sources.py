"""The kit notices each rule that a small faulty source breaks, and names it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import rheos as rh
from rheos.connectors import (
    EndOfSplit,
    Pending,
    Polled,
    ReaderContext,
    RowPlaces,
    Source,
    Split,
    SplitReader,
)
from rheos.connectors.source_wrapper import WrappedSource
from rheos.core.connectors import capabilities, sink_capabilities
from rheos.testing import BrokenRuleError, check_source
from rheos.testing.connector_kit import capability_rules, reading, sink_capability_rules, source_rules

SCHEMA = pa.schema({"n": pa.int64()})
IDS = ("a", "b")
ROWS = {split_id: [{"n": n} for n in range(20)] for split_id in IDS}


class Numbers(SplitReader):
    """Reader of twenty numbers; each defect below changes one of its methods."""

    def __init__(self, at: int, ctx: ReaderContext) -> None:
        self.at = at
        self.ctx = ctx

    def poll(self, max_rows: int) -> Polled:
        if self.at == 20:
            return EndOfSplit()
        return self.give(min(max_rows, 20 - self.at))

    def give(self, rows: int) -> pa.RecordBatch:
        self.at += rows
        return pa.RecordBatch.from_pydict({"n": range(self.at - rows, self.at)}, SCHEMA)

    def position(self) -> bytes:
        return b"%d" % self.at


@dataclass(frozen=True)
class Counting(Source):
    reader: Callable[[int, ReaderContext], SplitReader] = Numbers
    schema = SCHEMA
    bounded = True

    def splits(self) -> Sequence[Split]:
        return [Split(split_id) for split_id in IDS]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        return self.reader(int(position or b"0"), ctx)


def test_a_correct_source_returns_its_rows() -> None:
    assert check_source(Counting()) == ROWS


# --- readers with a defect --------------------------------------------------------------------------


class GivesTooMany(Numbers):
    def poll(self, max_rows: int) -> Polled:
        return super().poll(max_rows + 1)


class GivesOtherColumns(Numbers):
    def give(self, rows: int) -> pa.RecordBatch:
        return super().give(rows).rename_columns(["number"])


class GivesNone(Numbers):
    def poll(self, max_rows: int) -> Any:
        return None if self.at == 10 else super().poll(max_rows)


class LosesTheRestOfABlock(Numbers):
    """Reader that reads ten rows at a time, and returns only the first of them."""

    def poll(self, max_rows: int) -> Polled:
        polled = super().poll(min(max_rows, 10))
        self.at = -(-self.at // 10) * 10
        return polled


class IsAheadOfItsRows(Numbers):
    """Reader whose position is that of the rows read so far, in blocks of five."""

    def position(self) -> bytes:
        return b"%d" % (-(-self.at // 5) * 5)


class IsBehindItsRows(Numbers):
    def position(self) -> bytes:
        return b"%d" % max(self.at - 1, 0)


class AdvancesWhenAsked(Numbers):
    def position(self) -> bytes:
        said = super().position()
        self.at = min(self.at + 1, 20)
        return said


class BeginsAgainAtTheEnd(Numbers):
    def __init__(self, at: int, ctx: ReaderContext) -> None:
        super().__init__(0 if at == 20 else at, ctx)


class RejectsAgain(Numbers):
    """Reader that examines the row before the position again."""

    def __init__(self, at: int, ctx: ReaderContext) -> None:
        super().__init__(at, ctx)
        if at in (0, 7):
            ctx.reject(pa.RecordBatch.from_pydict({"record": ["bad"]}))


class CountsFromItsStart(Numbers):
    """Reader whose places depend on where it has started."""

    def __init__(self, at: int, ctx: ReaderContext) -> None:
        super().__init__(at, ctx)
        self.begun = at

    def give(self, rows: int) -> pa.RecordBatch:
        self.given = rows
        return super().give(rows)

    def places(self) -> RowPlaces:
        return RowPlaces("row", list(range(self.at - self.given - self.begun, self.at - self.begun)))


class ReturnsTooFewPlaces(Numbers):
    def places(self) -> RowPlaces:
        return RowPlaces("row", [self.at])


class Sleeps(Numbers):
    """Reader that waits although no one wakes it."""

    def poll(self, max_rows: int) -> Polled:
        return Pending() if self.at == 10 else super().poll(max_rows)


class CannotBeClosedUnread(Numbers):
    file: Any = None

    def poll(self, max_rows: int) -> Polled:
        self.file = self
        return super().poll(max_rows)

    def close(self) -> None:
        self.file.at = 0


class CannotBeClosedAfterAnError(Numbers):
    failed: bool = False

    def poll(self, max_rows: int) -> Polled:
        self.failed = True
        self.ctx.io.submit(lambda: None).result()
        self.failed = False
        return super().poll(max_rows)

    def close(self) -> None:
        assert not self.failed, "the buffer is locked"


@pytest.mark.parametrize(
    ("reader", "rule"),
    [
        (GivesTooMany, reading.BOUNDED),
        (GivesOtherColumns, reading.OF_SCHEMA),
        (GivesNone, reading.GIVES),
        (LosesTheRestOfABlock, source_rules.SAME),
        (IsAheadOfItsRows, source_rules.GOES_ON),
        (IsBehindItsRows, source_rules.GOES_ON),
        (AdvancesWhenAsked, source_rules.SAME),
        (BeginsAgainAtTheEnd, source_rules.FINAL),
        (RejectsAgain, source_rules.GOES_ON),
        (CountsFromItsStart, source_rules.PLACES),
        (ReturnsTooFewPlaces, source_rules.PLACES),
        (Sleeps, reading.WOKEN),
        (CannotBeClosedUnread, source_rules.CLOSES),
        (CannotBeClosedAfterAnError, source_rules.CLOSES),
    ],
)
def test_a_reader_with_a_defect_is_noticed(reader: Any, rule: str) -> None:
    with pytest.raises(BrokenRuleError) as failure:
        check_source(Counting(reader), patience_s=0.05 if reader is Sleeps else 60)
    assert str(failure.value).startswith(f"{rule}: ")


def test_a_failure_states_its_position() -> None:
    with pytest.raises(BrokenRuleError) as failure:
        check_source(Counting(IsAheadOfItsRows))
    assert str(failure.value) == (
        "a reader resumes at a position with exactly the rows not returned yet: "
        "split 'a', from the position after 1 rows, read with max_rows=1, "
        "returns {'n': 5}, {'n': 6}, {'n': 7}, ... (15 rows) instead of {'n': "
        "1}, {'n': 2}, {'n': 3}, ... (19 rows)"
    )


# --- sources with a defect --------------------------------------------------------------------------


class HasDuplicateNames(Counting):
    def splits(self) -> Sequence[Split]:
        return [Split("a"), Split("a")]


_listings: list[int] = []


class ListsInAnyOrder(Counting):
    def splits(self) -> Sequence[Split]:
        _listings.append(1)
        return sorted(super().splits(), key=lambda split: split.id, reverse=len(_listings) % 2 == 0)


class KeepsAFile(Counting):
    def __getstate__(self) -> Any:
        raise TypeError("cannot pickle a connection")


class NeverEnds(Counting):
    def endless(self, split: Split) -> bool:
        return split.id == "b"


class WatchesAndEnds(Counting):
    discovery_ms = 1000


class FindsALaterPhase(Counting):
    discovery_ms = 1000
    bounded = False

    def endless(self, split: Split) -> bool:
        return False

    def discover(self) -> Sequence[Split]:
        return [*self.splits(), Split("c", phase=1)]


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        (HasDuplicateNames(), capability_rules.UNIQUE),
        (ListsInAnyOrder(), source_rules.LISTED),
        (KeepsAFile(), source_rules.SENT),
        (NeverEnds(), capability_rules.ENDS),
        (WatchesAndEnds(), capability_rules.DISCOVERS),
        (FindsALaterPhase(), capability_rules.DISCOVERS),
    ],
)
def test_a_source_with_a_defect_is_noticed(source: Source, rule: str) -> None:
    with pytest.raises(BrokenRuleError) as failure:
        check_source(source)
    assert str(failure.value).startswith(f"{rule}: ")


def test_an_error_raised_by_a_source_names_the_rule() -> None:
    class Raises(Numbers):
        def poll(self, max_rows: int) -> Polled:
            raise rh.InputError("the line is no number")

    with pytest.raises(rh.InputError) as failure:
        check_source(Counting(Raises))
    assert failure.value.__notes__ == [f"raised while the connector kit checked: {source_rules.SAME}"]


# --- existing sources ---------------------------------------------------------------------------------


def test_collections_and_generators_keep_the_rules() -> None:
    rows = [{"n": n, "text": str(n)} for n in range(20)]
    assert check_source(rh.collection(rows)) == {"0": rows}
    made = check_source(rh.generator(lambda block: {"n": block.number()}, count=40, splits=2))
    assert sorted(row["n"] for split in made.values() for row in split) == list(range(40))
    endless = rh.generator(lambda block: {"n": block.number()}, splits=2, rate_per_s=10)
    assert [len(rows) for rows in check_source(endless, endless_rows=15).values()] == [15, 15]


@pytest.mark.parametrize("end", ["jsonl", "csv", "parquet"])
def test_file_sources_keep_the_rules(tmp_path: Path, end: str) -> None:
    rows = pa.table({"n": range(30), "text": [f"line {n}" for n in range(30)]})
    (tmp_path / "of-lines").mkdir()
    match end:
        case "jsonl":
            lines = [json.dumps(row) for row in rows.to_pylist()]
            lines.insert(11, "no JSON")  # The rejected record appears once, too.
            (tmp_path / "a.jsonl").write_text("\n".join(lines))
        case "csv":
            (tmp_path / "a.csv").write_text("n,text\n" + "".join(f"{n},line {n}\n" for n in range(30)))
        case _:
            pq.write_table(rows, tmp_path / "a.parquet", row_group_size=8)
    source = rh.files.source(str(tmp_path / f"*.{end}"), schema=rows.schema, on_error="skip")
    read = check_source(source)
    assert [row for split in read.values() for row in split] == rows.to_pylist()


# --- capabilities -----------------------------------------------------------------------------------


class ReadsToItsEnd(Numbers):
    """Reader without an end, which catches up with the existing rows."""

    def poll(self, max_rows: int) -> Polled:
        polled = super().poll(max_rows)
        return Pending(1000) if isinstance(polled, EndOfSplit) else polled

    def has_caught_up(self) -> bool:
        return self.at == 20


class NeverCatchesUp(ReadsToItsEnd):
    def has_caught_up(self) -> bool:
        return False


class LagsBehindNothing(Numbers):
    def lag_rows(self) -> int:
        return -1


@dataclass(frozen=True)
class Able(Counting):
    """Source with every capability of a bounded source; it keeps the rules."""

    event_time_behind = True
    may_stop = False
    forget_ms: ClassVar[int | None] = None
    orders_splits = True

    def read_after(self, split: Split) -> Sequence[str]:
        return []

    def made_ms(self, split: Split) -> int | None:
        return None

    def endless(self, split: Split) -> bool:
        return False

    def resumed(self, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
        return [split for split in splits if split.id in known]

    def client(self, ctx: ReaderContext) -> None:
        return None

    def staged(self, folder: str) -> Source:
        return self

    def released(self) -> None:
        pass

    def as_of_now(self) -> Source:
        return self

    def unpaced(self) -> Source:
        return Counting(self.reader)

    def only_reader(self) -> str | None:
        return "rows go to one reader"

    def lost_by_failure(self) -> str | None:
        return None

    def reading(self, columns: frozenset[str]) -> Source | None:
        return self

    split_columns: ClassVar[Sequence[str]] = ()

    def skipping(self, condition: pl.Expr) -> Source:
        return self

    def record_class(self) -> type | None:
        return dict

    def rejected_schema(self) -> pa.Schema | None:
        return SCHEMA

    def earliest_ms(self, split: Split, on: Any) -> int | None:
        return 0


class LacksFiles(Counting):
    def parquet_files(self, splits: Sequence[Split]) -> Sequence[str]:
        return []


class Endless(Able):
    def endless(self, split: Split) -> bool:
        return True


class FollowsItself(Able):
    def read_after(self, split: Split) -> Sequence[str]:
        return [split.id]


class ReadsOthers(Able):
    def resumed(self, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
        return [*splits, Split("another")]


class DiscoversBounded(Able):
    discovery_ms = 100


class ForgetsInDisorder(Able):
    bounded = False
    discovery_ms, forget_ms = 100, 5

    def made_ms(self, split: Split) -> int:
        return -IDS.index(split.id)


class CountsOtherwiseNow(Able):
    def as_of_now(self) -> Source:
        return Counting()


class Growing(Able):
    bounded = False

    def endless(self, split: Split) -> bool:
        return True


class LosesRowsUnpaced(Able):
    def unpaced(self) -> Source:
        return Counting(lambda at, ctx: Numbers(max(at, 3), ctx))


class GivesNoReason(Able):
    def only_reader(self) -> str | None:
        return ""


class PrunesTooMuch(Able):
    def reading(self, columns: frozenset[str]) -> Source | None:
        return Nothing()


@dataclass(frozen=True)
class Nothing(Counting):
    schema = pa.schema([])


class HasManyValues(Able):
    split_columns = ("n",)


class Sevens(Numbers):
    def give(self, rows: int) -> pa.RecordBatch:
        taken = super().give(rows)
        return pa.RecordBatch.from_arrays([pa.repeat(7, taken.num_rows)], schema=SCHEMA)


@dataclass(frozen=True)
class SkipsTooMuch(HasManyValues):
    reader: Callable[[int, ReaderContext], SplitReader] = Sevens

    def skipping(self, condition: pl.Expr) -> Source:
        return Counting()


class CannotBeReleased(Able):
    def released(self) -> None:
        raise RuntimeError("it is gone")


class NamesAnObject(Able):
    def record_class(self) -> Any:
        return {}


class IsUnsure(Able):
    event_time_behind: Any = None


class MayAlwaysStop(Able):
    may_stop: Any = "sometimes"


@dataclass(frozen=True)
class Timed(Able):
    schema = pa.schema({"at": pa.timestamp("us", "UTC")})
    reader: Any = lambda at, ctx: AtTimes(at, ctx)

    def earliest_ms(self, split: Split, on: Any) -> int | None:
        return 5000

    def reading(self, columns: frozenset[str]) -> Source | None:
        return None

    unpaced = as_of_now = None  # type: ignore[assignment]


class AtTimes(Numbers):
    def give(self, rows: int) -> pa.RecordBatch:
        numbers = super().give(rows).column(0).cast(pa.int64())
        times = pc.multiply(numbers, 1_000_000).cast(pa.timestamp("us", "UTC"))
        return pa.RecordBatch.from_arrays([times], names=["at"])


def test_a_source_with_every_capability_keeps_the_rules() -> None:
    able = Able()
    lacking = {each for each in capabilities.SOURCE_CAPABILITIES if not isinstance(able, each)}
    of_spark = {capabilities.RunsQueries, capabilities.HasSession, capabilities.HasDataFrame}
    of_spark.add(capabilities.StoresParquet)
    assert lacking == {capabilities.Discovers} | of_spark
    assert check_source(able) == ROWS
    assert check_source(Growing(ReadsToItsEnd), endless_rows=20) == ROWS


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        (Endless(), capability_rules.ENDS),
        (LacksFiles(), capability_rules.PARQUET),
        (FollowsItself(), capability_rules.ORDERS),
        (ReadsOthers(), capability_rules.SELECTS),
        (DiscoversBounded(), capability_rules.DISCOVERS),
        (ForgetsInDisorder(), capability_rules.FORGETS),
        (CountsOtherwiseNow(), capability_rules.UNTIL_NOW),
        (Growing(NeverCatchesUp), reading.WOKEN),
        (LosesRowsUnpaced(), capability_rules.UNPACED),
        (GivesNoReason(), capability_rules.REASONS),
        (PrunesTooMuch(), capability_rules.PRUNES),
        (HasManyValues(), capability_rules.SKIPS),
        (SkipsTooMuch(), capability_rules.SKIPS),
        (CannotBeReleased(), capability_rules.RELEASES),
        (NamesAnObject(), capability_rules.RECORDS),
        (IsUnsure(), capability_rules.TIME_COLUMN),
        (MayAlwaysStop(), capability_rules.STOPS),
        (Timed(), capability_rules.EARLIEST),
        (Able(LagsBehindNothing), capability_rules.LAG),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Source) else "",
)
def test_a_capability_with_a_defect_is_noticed(source: Source, rule: str) -> None:
    with pytest.raises(BrokenRuleError) as raised:
        check_source(source, endless_rows=20, patience_s=0.2)
    assert str(raised.value).startswith(rule)


OF_SINKS = (
    *sink_capabilities.SINK_CAPABILITIES,
    *sink_capabilities.WRITER_CAPABILITIES,
    *sink_capabilities.COMMITTER_CAPABILITIES,
)
OF_SOURCES = (*capabilities.SOURCE_CAPABILITIES, *capabilities.READER_CAPABILITIES)


@pytest.mark.parametrize(
    ("module", "every", "rules"),
    [
        (capabilities, OF_SOURCES, capability_rules.CAPABILITY_RULES),
        (sink_capabilities, OF_SINKS, sink_capability_rules.SINK_CAPABILITY_RULES),
    ],
    ids=["sources", "sinks"],
)
def test_every_capability_has_rule_public_name_and_docs(
    module: Any, every: Sequence[type], rules: Mapping[type, Any]
) -> None:
    declared = {each for each in vars(module).values() if getattr(each, "_is_protocol", False)}
    assert declared - {Protocol} == {*every}
    assert {*rules} == {*every}
    page = (Path(__file__).parents[3] / "docs/connectors.md").read_text()
    for each in every:
        assert getattr(rh.connectors, each.__name__) is each
        assert f"`{each.__name__}`" in page


def test_a_source_may_implement_part_of_a_capability() -> None:
    class Looks(Counting):
        bounded = False
        discovery_ms = 100

    looks = Looks()
    assert capabilities.discovery_ms(looks) == 100
    assert capabilities.discovered(looks) == looks.splits()
    assert capabilities.discovery_phase(looks) == 0
    assert capabilities.nothing_found(looks) is None
    assert capabilities.forget_ms(looks) is None


def test_a_subclass_removes_a_capability_with_none() -> None:
    class Unable(Able):
        staged = client = as_of_now = None  # type: ignore[assignment]

    assert not isinstance(Unable(), capabilities.StagesRows | capabilities.SharesClient)
    assert capabilities.until_now(Unable()) == Unable()
    assert check_source(Unable()) == ROWS


def test_a_wrapper_has_the_capabilities_of_its_source() -> None:
    members = {
        name
        for each in capabilities.SOURCE_CAPABILITIES
        for name in [*vars(each), *vars(each).get("__annotations__", {})]
        if not name.startswith("_")
    }
    assert members >= {"discovery_ms", "client", "reading"}
    # Columns and splits are pruned, and queries of Spark staged, before a source is wrapped.
    lacking = {name for name in members if not hasattr(WrappedSource(Able()), name)}
    before = {"reading", "split_columns", "skipping", "dataframe", "parquet_files"}
    assert lacking == before | {"queries", "session"}
    assert check_source(WrappedSource(Able())) == ROWS
