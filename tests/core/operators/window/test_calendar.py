"""Calendar windows of a time zone, compared with plain Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import rheos as rh
from rheos.core.checkpoint.compatibility import Verdict, compare
from rheos.core.errors import ProgramError, UnrestorableError
from rheos.core.graph.windows import Cumulating, Sliding, Tumbling
from rheos.core.operators.window.calendar import CalendarWindows
from rheos.core.operators.window.kinds import windows_of
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from rheos.core.protocol.ids import OperatorId
from rheos.ops.savepoints.layouts import layout_of
from tests.core.operators.window.calendar_oracle import windows_of as windows_by_hand
from tests.core.operators.window.harness import Bench

HOUR = 3_600_000
DAY = 24 * HOUR

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",  # set by half an hour
    "Pacific/Apia",  # skipped 2011-12-30
    "Asia/Kathmandu",
    "America/Havana",  # set at midnight
    "America/Sao_Paulo",  # skipped midnights
    "Antarctica/Troll",  # set by two hours
]
NEAR = [
    datetime(2011, 12, 30, 10, tzinfo=UTC),  # Apia skips a day
    datetime(2026, 3, 29, 1, tzinfo=UTC),  # Berlin and Troll
    datetime(2026, 10, 25, 1, tzinfo=UTC),
    datetime(2026, 11, 1, 5, tzinfo=UTC),  # Havana, an hour before New York
    datetime(2026, 4, 4, 15, tzinfo=UTC),  # Lord Howe
    datetime(2018, 11, 4, 3, tzinfo=UTC),  # Sao Paulo
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(2024, 2, 29, tzinfo=UTC),
]

CalendarWindow = Tumbling | Sliding | Cumulating
zones = st.sampled_from(ZONES)
offsets = st.sampled_from(["0s", "6h", "90m", "1d", "-1d"])
windows: st.SearchStrategy[CalendarWindow] = st.one_of(
    st.builds(
        Tumbling,
        st.sampled_from(["1h", "2h", "6h", "12h", "1d", "2d", "1w", "2w", "1mo", "1q", "1y"]),
        offsets,
        zone=zones,
    ),
    st.builds(
        lambda of, offset, zone: Sliding(*of, offset, zone=zone),
        st.sampled_from([("3h", "1h"), ("7d", "1d"), ("2w", "1w"), ("3mo", "1mo"), ("1d", "6h")]),
        offsets,
        zones,
    ),
    st.builds(
        lambda of, offset, zone: Cumulating(*of, offset, zone=zone),
        st.sampled_from([("1d", "6h"), ("1w", "1d"), ("1mo", "1d"), ("1y", "1mo"), ("2w", "1w")]),
        offsets,
        zones,
    ),
)
times = st.one_of(
    st.builds(
        lambda near, by: int(near.timestamp() * 1000) + by,
        st.sampled_from(NEAR),
        st.one_of(st.integers(-2 * DAY, 2 * DAY), st.integers(-8, 8).map(lambda n: n * HOUR // 2)),
    ),
    st.integers(-3 * 10**12, 10**13),
)


def arithmetic(window: CalendarWindow) -> CalendarWindows:
    window.check()
    made = windows_of(window)
    assert isinstance(made, CalendarWindows)
    return made


def placed(
    made: CalendarWindows, ts: list[int], above: int, upto: int, wm: int | None = None, late: int = 0
) -> list[list[tuple[int, int]]]:
    """Return the windows of each time that end after `above` and up to `upto`."""
    marks = None if wm is None else np.full(len(ts), wm)
    assigned = made.assign(np.array(ts), marks, late, MIN_TIMESTAMP_MS // 2)
    at = np.arange(len(ts)) if assigned.taken is None else np.flatnonzero(assigned.taken)
    found: list[list[tuple[int, int]]] = [[] for _ in ts]
    slices, valids = (np.broadcast_to(pane, at.shape) for pane in assigned.panes)
    ends, owner = made.ends(*made.due(slices, valids, above, upto))
    for row, start, end in zip(
        at[owner].tolist(), made.start_of(ends).tolist(), ends.tolist(), strict=True
    ):
        found[row].append((start, end))
    return found


@settings(max_examples=60)
@given(windows, st.lists(times, min_size=1, max_size=6), st.data())
@example(
    Tumbling("1h", zone="Antarctica/Troll"), [1792893600000 + n * HOUR // 2 for n in range(8)], None
)
@example(
    Sliding("7d", "1d", zone="Pacific/Apia"), [1325239200000 + n * DAY for n in range(-8, 9)], None
)
def test_windows_are_those_of_plain_python(
    window: CalendarWindow, ts: list[int], data: st.DataObject | None
) -> None:
    made, cut = arithmetic(window), window.calendar
    assert cut is not None
    by_hand = [windows_by_hand(each, cut) for each in ts]
    assert placed(made, ts, MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS - 1) == by_hand
    unbounded = made.assign(np.array(ts), None, 0, MIN_TIMESTAMP_MS // 2)
    slices, _ = (np.broadcast_to(pane, len(ts)) for pane in unbounded.panes)
    assert made.last_end(slices).tolist() == [found[-1][1] for found in by_hand]
    assert made.pane_end(slices).tolist() == [found[0][1] for found in by_hand]
    assert made.start_of(by_hand[0][0][1]) == by_hand[0][0][0]
    if data is None:
        return
    ends = sorted({end for found in by_hand for _, end in found})
    near = st.sampled_from([end + by for end in ends for by in (-1, 0, 1)])
    above, upto = data.draw(near), data.draw(near)
    assert placed(made, ts, above, upto) == [
        [(start, end) for start, end in found if above < end <= upto] for found in by_hand
    ]
    wm, lateness = data.draw(near), data.draw(st.sampled_from([0, 1, HOUR]))
    assert placed(made, ts, MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS - 1, wm, lateness) == [
        [(start, end) for start, end in found if end - 1 + lateness > wm] for found in by_hand
    ]
    late = made.assign(np.array(ts), np.full(len(ts), wm), lateness, MIN_TIMESTAMP_MS // 2).late
    gone = [found[-1][1] - 1 + lateness <= wm for found in by_hand]
    assert (late is None and not any(gone)) or (late is not None and late.tolist() == gone)


def test_times_beyond_the_calendar_of_python_have_windows() -> None:
    made = arithmetic(Tumbling("1mo", zone="Europe/Berlin"))
    for year in (-5000, 0, 9_999, 12_000, 200_000):
        at = int(np.datetime64(f"{year:+06}-07-15T12:00", "ms").astype(np.int64))
        ((start, end),) = placed(made, [at], MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS - 1)[0]
        assert start <= at < end
        assert end - start in (31 * DAY, 30 * DAY)


V = pa.schema([("k", pa.string()), ("v", pa.int64())])


def test_state_of_another_zone_is_refused_and_shown() -> None:
    aggregates = {"n": rh.agg.count()}
    bench = Bench.of_aggregates(Tumbling("1d", zone="Europe/Berlin"), aggregates, V)
    bench.rows([{"k": "a", "v": 1, "ts": 5 * DAY, "wm": MIN_TIMESTAMP_MS}])
    shapes, stored = bench.shapes(), bench.checkpoint()
    fired = layout_of("fired", shapes).rows(stored["fired"][0]).to_pylist()[0]
    assert (fired["zone"], fired["every"], fired["offset_ms"]) == ("Europe/Berlin", "86400000 ms", 0)
    for other in (Tumbling("1d", zone="UTC"), Tumbling("1d"), Cumulating("1w", "1d", zone="UTC")):
        now = Bench.of_aggregates(other, aggregates, V)
        found = compare({OperatorId("w"): shapes}, {OperatorId("w"): now.shapes()}, {})
        assert any(each.verdict is Verdict.UNREADABLE for each in found)
    bench.make = Bench.of_aggregates(Tumbling("1d", zone="UTC"), aggregates, V).make
    with pytest.raises(
        UnrestorableError, match=r"in Europe/Berlin, but the program now declares .* in UTC"
    ):
        bench.restart(1)


@pytest.mark.parametrize(
    ("window", "says"),
    [
        (Tumbling("1d", zone="Europe/Berln"), "did you mean 'Europe/Berlin'"),
        (Tumbling("1d", zone="../etc/passwd"), "is not a time zone"),
        (Tumbling("1d", zone=3), "is not a time zone"),  # type: ignore[arg-type]
        (Tumbling("90m", zone="UTC"), "ms do not divide a local day evenly"),
        (Tumbling("36h", zone="UTC"), "ms do not divide a local day evenly"),
        (Tumbling("0mo"), "a window must be longer than 0"),
        (Tumbling("1mo 2d"), "not a duration"),
        (Sliding("1mo", "1d"), "a sliding calendar window must be a multiple of its step"),
        (Sliding("1d", "2d", gaps=True, zone="UTC"), "a sliding calendar window must be a multiple"),
        (Cumulating("1mo", "1w"), "the length of a cumulating window must be a multiple of its step"),
        (Cumulating("1mo", "2d"), "the length of a cumulating window must be a multiple of its step"),
    ],
)
def test_invalid_calendar_windows_are_refused(window: CalendarWindow, says: str) -> None:
    with pytest.raises(ProgramError, match=says):
        window.check()


def test_the_error_for_a_duration_with_months_suggests_days() -> None:
    with pytest.raises(ProgramError, match=r'months and years differ in length[\s\S]*"30d"'):
        rh.Session("1mo").check()


# --- whole programs -----------------------------------------------------------------------------------

SPRING = datetime(2026, 3, 28, 20, tzinfo=UTC)


def hours(env: rh.Environment) -> rh.DataStream:
    begin = int(SPRING.timestamp() * 1000)
    rows = [{"k": "ab"[i % 2], "at": begin + i * HOUR} for i in range(60)]
    return env.from_source(rh.collection(rows), watermark=rh.Watermark.monotonic(on="at"))


class Count(rh.WindowFunction):
    def process(self, records: list[Any], ctx: rh.WindowContext) -> Iterator[tuple[int]]:
        yield {"n": len(records), "h": (ctx.window.end_ms - ctx.window.start_ms) // HOUR}  # type: ignore[misc]


def test_every_form_of_a_local_day_is_equivalent() -> None:
    env = rh.Environment(2, runtime="simulated")
    rows, day = hours(env), rh.Tumbling("1d", zone="Europe/Berlin")
    keyed = rows.key_by("k").window(day)
    keyed.aggregate(n=rh.agg.count()).collect("aggregated")
    keyed.trigger(rh.triggers.event_time()).aggregate(n=rh.agg.count()).collect("triggered")
    rows.window_all(day).aggregate(n=rh.agg.count()).collect("in two phases")
    counted = pa.schema([("n", pa.int64()), ("h", pa.int64())])
    keyed.process(Count(), returns=counted).collect("by a function")
    rows.key_by("k").window_join(rows.key_by("k"), day, suffix="_r").collect("joined")
    env.register("t", rows)
    env.sql(
        "SELECT k, window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), "
        "INTERVAL '1' DAY, ZONE => 'Europe/Berlin')) GROUP BY window_start, window_end, k"
    ).collect("queried")
    env.sql(
        "SELECT k, window_start FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), "
        "INTERVAL '1' DAY, ZONE => 'Europe/Berlin'))"
    ).collect("rows")
    found = env.execute("local days").collected
    days = {(row["k"], row["window_start"]): row["n"] for row in found["aggregated"].to_pylist()}
    assert sorted(days.values()) == [1, 2, 5, 5, 11, 12, 12, 12]
    for form in ("triggered", "queried"):
        same = {(row["k"], row["window_start"]): row["n"] for row in found[form].to_pylist()}
        assert same == days
    whole: dict[Any, int] = {}
    pairs: dict[Any, int] = {}
    for (key, start), n in days.items():
        whole[start] = whole.get(start, 0) + n
        pairs[key, start] = n * n
    assert _by(found["in two phases"], "window_start", "n") == whole
    assert sorted(whole.values()) == [3, 10, 23, 24]
    assert sorted((r["n"], r["h"]) for r in found["by a function"].to_pylist()) == sorted(
        (n, 23 if whole[start] == 23 else 24) for (_, start), n in days.items()
    )
    for form, expected in (("joined", pairs), ("rows", days)):
        came: dict[Any, int] = {}
        for row in found[form].to_pylist():
            came[row["k"], row["window_start"]] = came.get((row["k"], row["window_start"]), 0) + 1
        assert came == expected


def _by(table: pa.Table, key: str, value: str) -> Mapping[Any, Any]:
    return {row[key]: row[value] for row in table.to_pylist()}
