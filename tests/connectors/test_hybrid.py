from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.connectors.collection import collection
from rheos.connectors.files import source as file_source
from rheos.connectors.generator import Block, generator
from rheos.connectors.hybrid import HybridSource, hybrid
from rheos.connectors.replay import Replay
from rheos.core.connectors.contract import Pending, ReaderContext, Source, Split
from rheos.core.errors import InputError, ProgramError, SchemaError
from rheos.core.times import TimeColumn
from tests.connectors.ports import Probe, assert_resumes_everywhere, read_all

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
NOON_MS = round(NOON.timestamp() * 1000)


@dataclass
class Row:
    at: int
    n: int


def rows(*times: int | None, first: int = 0) -> Source:
    return collection(
        pa.table(
            {
                "at": pa.array(times, pa.int64()),
                "n": pa.array(range(first, first + len(times)), pa.int64()),
            }
        )
    )


def endless(block: Block) -> dict[str, Any]:
    return {"at": block.index(), "n": block.index()}


def left(source: Source, probe: Probe | None = None, max_rows: int = 2) -> list[list[int]]:
    """Return the numbers that each split emits, without batches in which no row counts."""
    ctx = (probe or Probe()).context()
    found = []
    for split in source.splits():
        reader, of_split = source.open(split, None, ctx), []
        while isinstance(polled := reader.poll(max_rows), pa.RecordBatch):
            assert polled.schema == source.schema
            of_split += polled.column("n").to_pylist()
        reader.close()
        found.append(of_split)
    return found


# --- parts as one ----------------------------------------------------------------------------------


def test_the_parts_follow_one_another_as_phases() -> None:
    given = hybrid(rows(1, 2), generator(endless, count=4, splits=2), rows(9, first=7))
    splits = given.splits()
    assert [(split.id, split.phase) for split in splits] == [
        ("0/0", 0),
        ("1/00000", 1),
        ("1/00001", 1),
        ("2/0", 2),
    ]
    assert left(given) == [[0, 1], [0, 1], [0, 1], [7]]
    for split in splits:
        assert_resumes_everywhere(given, split)


def test_the_batch_runtime_does_not_pace_parts(tmp_path: Path) -> None:
    paced = file_source(tmp_path, schema=Row, replay=Replay("at", "1x", unit="ms"))
    unpaced = file_source(tmp_path, schema=Row)
    last = rows(1)
    assert hybrid(paced, last).unpaced() == replace(hybrid(paced, last), parts=(unpaced, last))


def test_a_hybrid_ends_with_its_last_part() -> None:
    assert hybrid(rows(1), rows(2)).bounded
    assert not hybrid(rows(1), generator(endless, splits=1)).bounded


def test_explain_names_the_parts() -> None:
    given = hybrid(rows(1), generator(endless, splits=3))
    assert given.describe() == "a collection of 1 rows, then a generator of rows without end, 3 splits"
    other = hybrid(rows(1), generator(endless, splits=4))
    assert given.positions() != other.positions()
    assert given.positions() != rows(1).positions()


def test_the_dataclass_is_that_of_the_parts_that_have_one() -> None:
    recorded = collection([Row(1, 1)])
    assert hybrid(recorded, collection([{"at": 1, "n": 1}], schema=recorded.schema)).record is Row


def test_columns_may_differ_in_order_and_nullability() -> None:
    strict = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("at", pa.int64())])
    first = collection([{"n": 1, "at": 2}], schema=strict)
    given = hybrid(first, rows(4, first=3))
    assert given.schema == pa.schema([("n", pa.int64()), ("at", pa.int64())])
    assert read_all(given) == [{"n": 1, "at": 2}, {"n": 3, "at": 4}]


def test_rejected_rows_are_those_of_the_parts(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("at", pa.int64()), pa.field("n", pa.int64())])
    (tmp_path / "a.jsonl").write_text('{"at": 1, "n": 5}\n{"at": "?"}\n')
    skipping = file_source(tmp_path / "a.jsonl", schema=schema, on_error="skip")
    given = hybrid(skipping, rows(9))
    assert given.rejected_schema() == skipping.rejected_schema()
    assert hybrid(rows(9), rows(9)).rejected_schema() is None
    probe = Probe()
    assert [row["n"] for row in read_all(given, probe)] == [5, 0]
    assert len(probe.rejected) == probe.counts["skipped"] == 1


class Unwritten(Source):
    """Source that has no splits before it is staged."""

    schema = pa.schema([("at", pa.int64()), ("n", pa.int64())])
    bounded = True

    def staged(self, folder: str) -> Source:
        return collection([{"at": 1, "n": int(folder.rsplit("/", 1)[-1])}])

    def splits(self) -> Sequence[Split]:
        raise AssertionError

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> Any:
        raise AssertionError


def test_each_part_is_staged_in_a_separate_folder() -> None:
    parts = Unwritten(), Unwritten(), rows(7, first=9)
    assert left(hybrid(*parts).staged("/job/source-1")) == [[0], [1], [9]]
    cut = hybrid(*parts, on="at", switch=[1, 2])
    staged = cut.staged("/job/source-1")
    assert isinstance(staged, HybridSource)
    assert (staged.on, staged.switches_us) == (cut.on, cut.switches_us)


# --- the switch ------------------------------------------------------------------------------------


def test_each_row_of_an_overlap_counts_once() -> None:
    probe = Probe()
    given = hybrid(rows(1, 9, 10, 3, 11), rows(4, 12, 9, 10, first=100), on="at", switch=10)
    assert left(given, probe) == [[0, 1, 3], [101, 103]]
    assert probe.counts == {"after_switch": 2, "before_switch": 2}


def test_several_switches_bound_each_part() -> None:
    parts = [rows(*range(10), first=100 * part) for part in range(3)]
    assert left(hybrid(*parts, on="at", switch=[3, 6])) == [
        [0, 1, 2],
        [103, 104, 105],
        [206, 207, 208, 209],
    ]


def test_rows_that_do_not_count_become_an_empty_batch() -> None:
    reader = hybrid(rows(20), rows(1, 20), on="at", switch=10)
    first = reader.open(reader.splits()[1], None, Probe().context())
    polled = first.poll(1)
    assert isinstance(polled, pa.RecordBatch)
    assert polled.num_rows == 0
    again = reader.open(reader.splits()[1], first.position(), Probe().context())
    assert again.poll(9).column("n").to_pylist() == [1]  # type: ignore[union-attr]


@given(
    history=st.lists(st.integers(0, 30), max_size=12),
    live=st.lists(st.integers(0, 30), max_size=12),
    switch=st.integers(-1, 31),
    max_rows=st.integers(1, 5),
)
def test_the_switch_decides_in_which_source_a_row_counts(
    history: list[int], live: list[int], switch: int, max_rows: int
) -> None:
    parts = rows(*history), rows(*live)
    [first, second] = left(hybrid(*parts, on="at", switch=switch), max_rows=max_rows)
    assert first == [n for n, at in enumerate(history) if at < switch]
    assert second == [n for n, at in enumerate(live) if at >= switch]


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        (pa.timestamp("s", "UTC"), NOON - timedelta(seconds=1), NOON),
        (pa.timestamp("us"), NOON.replace(tzinfo=None) - timedelta(microseconds=1), NOON),
        (pa.timestamp("ns", "Europe/Berlin"), NOON - timedelta(microseconds=1), NOON),
        (pa.int64(), NOON_MS - 1, NOON_MS),
        (pa.date32(), date(2026, 7, 1), date(2026, 7, 2)),
        (pa.date64(), date(2026, 7, 1), date(2026, 7, 2)),
    ],
)
def test_times_of_every_type_are_compared_exactly(kind: pa.DataType, before: Any, after: Any) -> None:
    part = collection(pa.table({"at": pa.array([before, after], kind), "n": [0, 1]}))
    same_moment = [
        NOON,
        NOON.replace(tzinfo=None),
        NOON.astimezone(timezone(timedelta(hours=2))),
        NOON_MS,
    ]
    for switch in same_moment:
        assert left(hybrid(part, part, on="at", switch=switch)) == [[0], [1]]


@pytest.mark.parametrize(
    ("kind", "before", "after", "said"),
    [
        (pa.int32(), NOON_MS // 1000 - 1, NOON_MS // 1000, {"unit": "s"}),
        (pa.float64(), NOON_MS / 1000 - 0.001, NOON_MS / 1000, {"unit": "s"}),
        (pa.int64(), NOON_MS * 1_000_000 - 1, NOON_MS * 1_000_000, {"unit": "ns"}),
        (
            pa.string(),
            "01.07.2026 11:59:59",
            "01.07.2026 12:00:00",
            {"format": "%d.%m.%Y %H:%M:%S"},
        ),
    ],
)
def test_numbers_have_a_unit_and_strings_a_format(
    kind: pa.DataType, before: Any, after: Any, said: dict[str, Any]
) -> None:
    part = collection(pa.table({"at": pa.array([before, after], kind), "n": [0, 1]}))
    switched = hybrid(part, part, on="at", switch=NOON, **said)
    assert left(switched) == [[0], [1]]
    known = [switched.earliest_ms(split, TimeColumn("at", **said)) for split in switched.splits()]
    assert known == [None, NOON_MS]


def test_a_string_in_another_format_is_an_error() -> None:
    part = collection(pa.table({"at": ["12:00", "noon"], "n": [0, 1]}))
    with pytest.raises(InputError, match="column 'at' is null, or cannot be parsed with its") as caught:
        left(hybrid(part, part, on="at", switch=0, format="%d.%m.%Y"))
    assert caught.value.record == "{'at': '12:00', 'n': 0}"


def test_a_switch_between_two_units_is_not_rounded() -> None:
    late = NOON + timedelta(microseconds=1)
    for kind, moment in ((pa.timestamp("ms"), NOON), (pa.int64(), NOON_MS)):
        naive = moment.replace(tzinfo=None) if isinstance(moment, datetime) else moment
        part = collection(pa.table({"at": pa.array([naive], kind), "n": [0]}))
        assert left(hybrid(part, part, on="at", switch=late)) == [[0], []]


def test_extreme_times_are_compared() -> None:
    part = rows(-(2**63), 2**63 - 1)
    assert left(hybrid(part, part, on="at", switch=datetime.max)) == [[0], [1]]
    ns = collection(pa.table({"at": pa.array([-(2**62), 2**62], pa.timestamp("ns")), "n": [0, 1]}))
    assert left(hybrid(ns, ns, on="at", switch=datetime.max)) == [[0, 1], []]
    assert left(hybrid(ns, ns, on="at", switch=datetime.min)) == [[], [0, 1]]


def test_a_row_without_a_time_is_reported() -> None:
    given = hybrid(rows(1, None), rows(9), on="at", switch=5)
    with pytest.raises(InputError, match="column 'at' is null") as caught:
        left(given)
    assert caught.value.record == "{'at': None, 'n': 1}"
    assert left(hybrid(rows(1, None), rows(9))) == [[0, 1], [0]]


def test_the_earliest_times_of_parts_are_known() -> None:
    given = hybrid(rows(1), rows(2), rows(3), on="at", switch=[5, 8])
    at, other, in_seconds = TimeColumn("at"), TimeColumn("n"), TimeColumn("at", unit="s")
    assert [given.earliest_ms(split, at) for split in given.splits()] == [None, 5, 8]
    assert [given.earliest_ms(split, other) for split in given.splits()] == [None, None, None]
    assert [given.earliest_ms(split, in_seconds) for split in given.splits()] == [None, None, None]
    plain = hybrid(rows(1), rows(2))
    assert [plain.earliest_ms(split, at) for split in plain.splits()] == [None, None]


def test_a_hybrid_waits_as_its_part_does() -> None:
    slow = generator(endless, count=5, rate_per_s=10, splits=1)
    given = hybrid(rows(1), slow, on="at", switch=0)
    reader = given.open(given.splits()[1], None, Probe().context())
    reader.poll(1)
    assert isinstance(reader.poll(1), Pending)


# --- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: hybrid(rows(1)), "needs at least two sources"),
        (lambda: hybrid(rows(1), "live"), "is not a source, but"),  # type: ignore[arg-type]
        (lambda: hybrid(generator(endless), rows(1)), "so later sources would never be read"),
        (lambda: hybrid(rows(1), generator(endless), rows(1)), "so later sources would never be read"),
        (lambda: hybrid(hybrid(rows(1), rows(2)), rows(3)), "is itself a hybrid"),
        (lambda: hybrid(rows(1), rows(2), on="at"), "on= and switch= of a hybrid must be used"),
        (lambda: hybrid(rows(1), rows(2), switch=5), "on= and switch= of a hybrid must be used"),
        (
            lambda: hybrid(rows(1), rows(2), unit="s"),
            "unit= and format= describe the column on=, which is missing",
        ),
        (lambda: hybrid(rows(1), rows(2), on="at", switch=[5, 6]), "sources needs 1 switches, not 2"),
        (lambda: hybrid(rows(1), rows(2), rows(3), on="at", switch=5), "sources needs 2 switches, not"),
        (
            lambda: hybrid(rows(1), rows(2), rows(3), on="at", switch=[6, 6]),
            "are not in ascending order: 6, 6",
        ),
        (lambda: hybrid(rows(1), rows(2), on="at", switch="noon"), "'noon' is not a point in time"),  # type: ignore[arg-type]
        (lambda: hybrid(rows(1), rows(2), on="at", switch=True), "True is not a point in time"),
    ],
)
def test_invalid_hybrids_are_refused(build: Any, said: str) -> None:
    with pytest.raises(ProgramError, match=said) as caught:
        build()
    assert caught.value.hint


def test_columns_that_differ_are_named() -> None:
    other = collection(pa.table({"at": pa.array([1], pa.int32()), "n": [1]}))
    with pytest.raises(SchemaError, match=r"column 'at' is int64 in source 1 of the hybrid, but"):
        hybrid(rows(1), other)
    wider = collection(pa.table({"at": [1], "n": [1], "who": ["x"]}))
    with pytest.raises(
        SchemaError, match="source 3 of the hybrid has a column 'who', but source 1 does not"
    ):
        hybrid(rows(1), rows(2), wider)
    with pytest.raises(
        SchemaError, match="source 1 of the hybrid has a column 'who', but source 2 does not"
    ):
        hybrid(wider, rows(1))
    with pytest.raises(SchemaError, match="unknown column 'when'"):
        hybrid(rows(1), rows(2), on="when", switch=1)
    text = collection(pa.table({"at": ["noon"], "n": [1]}))
    with pytest.raises(SchemaError, match="its column 'at' is string"):
        hybrid(text, text, on="at", switch=1)
