"""Sessions for any batches, interleaving and restarts: as if rows arrived one by one, in the order of
their watermarks, and joined the sessions open by then."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from rheos.core import aggregates as agg
from rheos.core.graph.windows import Session
from rheos.core.operators.window import panes
from tests.core.operators.window.harness import Bench, aggregated, state_on_disk
from tests.core.operators.window.test_against_oracle import Split, play
from tests.worlds.programs import Arrived, millis
from tests.worlds.session_program import sessions_of

SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("v", pa.float64())])
AGGREGATES = {
    "rows": agg.count(),
    "total": agg.sum("v"),
    "median": agg.quantile("v", 0.5),
    "users": agg.count_distinct("n"),
}
OF_NUMBERS = {
    "rows": agg.count(),
    "total": agg.sum("v"),
    "whole": agg.sum("n"),
    "most": agg.max("v"),
    "least": agg.min("n"),
}
"""Columns that arrays can hold, but for nulls."""

rows = st.fixed_dictionaries(
    {
        "k": st.sampled_from([1, 2]),
        "n": st.none() | st.integers(-3, 3),
        "v": st.none() | st.sampled_from([0.1, 1e200, -1e200, 5.0]),
        "ts": st.integers(-20, 60),
    }
)


@settings(max_examples=8)
@given(
    gap=st.integers(1, 12),
    lateness=st.sampled_from([0, 0, 1, 5]),
    of_splits=st.lists(st.lists(rows, max_size=16), min_size=1, max_size=3),
    bound=st.integers(0, 12),
    batch_rows=st.sampled_from([1, 2, 1000]),
    data=st.data(),
)
def test_sessions_depend_on_the_records_alone(
    gap: int,
    lateness: int,
    of_splits: list[list[dict[str, Any]]],
    bound: int,
    batch_rows: int,
    data: st.DataObject,
) -> None:
    splits = [Split(split, bound) for split in of_splits]
    came = [row for split in splits for row in split.rows]
    arrived = [Arrived(row["k"], i, 0.0, row["ts"], row["wm"]) for i, row in enumerate(came)]
    sessions, late = sessions_of(arrived, gap, lateness)
    aggregates = AGGREGATES if data.draw(st.booleans()) else OF_NUMBERS
    bench = Bench.of_aggregates(
        Session(f"{gap}ms"), aggregates, SCHEMA, lateness_ms=lateness, batch_rows=batch_rows
    )
    with (
        patch.object(panes, "FAN_IN", 2) if data.draw(st.booleans()) else nullcontext(),
        state_on_disk(bench) if data.draw(st.booleans()) else nullcontext(),
    ):
        play(bench, splits, data)

    results: dict[tuple[int, int, int], dict[str, Any]] = {}
    for row in bench.out:
        assert row["__ts"] == millis(row["window_end"]) - 1
        window = row["k"], millis(row["window_start"]), millis(row["window_end"])
        assert lateness or window not in results
        results[window] = {name: row[name] for name in aggregates}
    final = {
        (session.rows[0].k, session.start, session.end): {
            name: aggregated(of, [came[row.i] for row in session.rows])
            for name, of in aggregates.items()
        }
        for session in sessions
    }
    assert {window: results.get(window) for window in final} == final
    # With lateness a session that has fired may grow: it gives its result again, as another window.
    for key, start, end in results.keys() - final.keys():
        assert lateness
        assert any(k == key and s <= start and end <= e for k, s, e in final)

    def canonical(rows: list[dict[str, Any]]) -> list[str]:
        return sorted(repr((row["k"], row["n"], row["v"])) for row in rows)

    assert canonical(bench.sides["late"]) == canonical([came[row.i] for row in late])
    assert bench.count("late") == len(late)
    assert bench.count("late_purged") == 0
