"""A kind of window that is defined in one place works wherever windows do: `Doubling`, named once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.checkpoint.compatibility import Verdict, compare
from rheos.core.errors import ProgramError, UnrestorableError
from rheos.core.graph.windows import Window
from rheos.core.operators.window.contract import FixedWindows, IntOrInts, Ints, PaneAssignment
from rheos.core.operators.window.kinds import KINDS
from rheos.core.protocol.elements import WatermarkMark
from rheos.core.protocol.ids import OperatorId
from rheos.ops.savepoints.layouts import layout_of
from rheos.testing import OperatorExample, check_example
from tests.core.operators.rows import SCHEMA, Row, row
from tests.core.operators.window.harness import Bench, timeline


@dataclass(frozen=True)
class Doubling(Window):
    """Windows from `first` to twice that, to four times that, and so on."""

    kind: ClassVar[str] = "doubling"

    first: int = 1

    @property
    def cut(self) -> Mapping[str, int]:
        return {"first": self.first}

    def check(self) -> None:
        if self.first < 1:
            raise ProgramError("the first window begins after the epoch")


@dataclass(frozen=True)
class DoublingWindows(FixedWindows):
    """A window is a pane: (its start, its end)."""

    kind: ClassVar[str] = "doubling"

    first: int

    @property
    def cut(self) -> Mapping[str, int]:
        return {"first": self.first}

    @classmethod
    def of(cls, cut: Mapping[str, int]) -> DoublingWindows:
        return cls(cut["first"])

    def assign(
        self, ts: Ints, wm: Ints | None, lateness_ms: int, purged_through: int
    ) -> PaneAssignment:
        starts = self.first << np.log2(np.maximum(ts // self.first, 1)).astype(np.int64)
        ends = 2 * starts
        inside = ts >= self.first
        own = np.full(len(ts), -(2**62)) if wm is None else wm
        by_itself = inside & (ends - 1 + lateness_ms <= own)
        late = inside & (ends - 1 + lateness_ms <= np.maximum(own, purged_through))
        taken = inside & ~late
        return PaneAssignment(
            (starts[taken], ends[taken]),
            taken,
            late if late.any() else None,
            int((late & ~by_itself).sum()),
            int((~inside).sum()),
        )

    def due(self, slices: Ints, valids: Ints, above: int, upto: int) -> tuple[Ints, Ints]:
        return valids, ((valids > above) & (valids <= upto)).astype(np.int64)

    def ends(self, first: Ints, count: Ints) -> tuple[Ints, Ints]:
        owner = np.flatnonzero(count)
        return first[owner], owner

    def last_end(self, slices: Ints) -> Ints:
        return slices * 2

    def start_of(self, end: IntOrInts) -> IntOrInts:
        return end // 2

    def pane_end(self, slices: Ints) -> Ints:
        return slices * 2


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, Doubling.kind, DoublingWindows.of)


SCRIPT = [
    row("a", 1, 5),
    row("b", 2, 7),
    row("a", 3, 9),
    WatermarkMark(7),
    row("b", 4, 6),
    row("a", 5, 4),
    row("a", 6, 15),
    WatermarkMark(11),
    row("a", 7, 5),
    row("b", 8, 0),
    row("b", 9, 33),
]


def millis(row: Mapping[str, Any]) -> tuple[int, int]:
    return tuple(int(row[name].timestamp() * 1000) for name in ("window_start", "window_end"))  # type: ignore[return-value]


def test_aggregates_in_windows_of_a_new_kind() -> None:
    def windowed(rows: rh.DataStream) -> Mapping[str, rh.DataStream]:
        windows = rows.key_by("k").window(Doubling()).allowed_lateness("3ms")
        out = windows.aggregate(total=rh.agg.sum("v"), n=rh.agg.count())
        return {"out": out, "late": out.side_output("late")}

    example = OperatorExample(
        windowed, SCHEMA, SCRIPT, on="at", last_by=("k", "window_start", "window_end")
    )
    came = check_example(example)
    assert [r["v"] for r in came["late"]] == [7]
    last = {(r["k"], *millis(r)): (r["total"], r["n"]) for r in came["out"]}
    assert last == {
        ("a", 4, 8): (6, 2),
        ("b", 4, 8): (6, 2),
        ("a", 8, 16): (9, 2),
        ("b", 32, 64): (9, 1),
    }


@dataclass
class Seen:
    k: str
    window: str
    values: str


class Listing(rh.WindowFunction):
    def process(self, records: list[Row], ctx: rh.WindowContext) -> Iterator[Seen]:
        window = f"{ctx.window.start_ms} to {ctx.window.end_ms}"
        yield Seen(ctx.key, window, str([record.v for record in records]))


def test_functions_over_windows_of_a_new_kind() -> None:
    example = OperatorExample(
        lambda rows: rows.key_by("k").window(Doubling()).process(Listing()), SCHEMA, SCRIPT[:8], on="at"
    )
    came = check_example(example)["out"]
    assert sorted((r["k"], r["window"], r["values"]) for r in came) == [
        ("a", "4 to 8", "[1]"),
        ("a", "8 to 16", "[3, 6]"),
        ("b", "4 to 8", "[2]"),
    ]


V = pa.schema([("k", pa.string()), ("v", pa.int64())])
COUNT = {"n": rh.agg.count()}


def test_stored_state_names_its_kind_and_is_shown() -> None:
    bench = Bench.of_aggregates(Doubling(), COUNT, V)
    bench.rows(list(timeline(".....a")))
    bench.watermark(4)
    stored = bench.checkpoint()
    assert stored["fired"][0].select(["fired_through", "first_ms", "kind"]).to_pylist() == [
        {"fired_through": 4, "first_ms": 1, "kind": "doubling"}
    ]
    shapes = bench.shapes()
    (pane,) = layout_of("totals", shapes).rows(stored["totals"][0]).to_pylist()
    start, end, first_end = (
        int(pane[name].timestamp() * 1000) for name in ("pane_start", "pane_end", "first_window_end")
    )
    assert (pane["k"], start, end, first_end) == ("a", 4, 8, 8)
    assert "first_ms" in layout_of("fired", shapes).schema.names


@pytest.mark.parametrize("other", [rh.Tumbling("4ms"), Doubling(3)])
def test_state_of_another_kind_or_size_is_refused(other: Window) -> None:
    bench = Bench.of_aggregates(other, COUNT, V)
    was = bench.shapes()
    bench.rows(list(timeline(".....a")))
    bench.make = Bench.of_aggregates(Doubling(), COUNT, V).make
    with pytest.raises(
        UnrestorableError, match=r"the state belongs to .* but the program now declares"
    ):
        bench.restart(1)
    now = Bench.of_aggregates(Doubling(), COUNT, V).shapes()
    found = compare({OperatorId("w"): was}, {OperatorId("w"): now}, {})
    refused = {(f.field, f.text) for f in found if f.verdict is Verdict.UNREADABLE}
    assert (
        refused
        == {
            "grid": {("kind", "were windows of the kind grid, are now of the kind doubling")},
            "doubling": {("first", "was 3 ms, is now 1 ms")},
        }[other.kind]
    )


def test_an_unknown_kind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench.of_aggregates(Doubling(), COUNT, V)
    bench.rows(list(timeline(".....a")))
    bench.checkpoint()
    shapes = bench.shapes()
    bench.make = Bench.of_aggregates(rh.Tumbling("4ms"), COUNT, V).make
    monkeypatch.delitem(KINDS, Doubling.kind)
    unknown = "the state belongs to windows of the kind 'doubling', which this version of Rheos does"
    with pytest.raises(UnrestorableError, match=unknown):
        bench.restore(bench.chains, 1)
    with pytest.raises(UnrestorableError, match=unknown):
        layout_of("totals", shapes)
    env = rh.Environment(1, runtime="simulated")
    rows = env.from_source(
        rh.collection([row("a", 1, 1)], schema=SCHEMA), watermark=rh.Watermark.monotonic(on="at")
    )
    with pytest.raises(ProgramError, match="has the window kind 'doubling', which is not registered"):
        rows.key_by("k").window(Doubling())


def test_state_of_0_1_0_without_a_kind_is_read() -> None:
    bench = Bench.of_aggregates(rh.Tumbling("4ms"), COUNT, V)
    bench.rows(list(timeline(".....a")))
    bench.checkpoint()
    chains = bench.chains[0]
    kind, tables = chains["fired"]
    chains["fired"] = (kind, [table.drop_columns(["kind"]) for table in tables])
    bench.restore(bench.chains, 2)
    assert [row["n"] for row in bench.end()] == [1]
