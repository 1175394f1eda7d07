"""The corpus has the stated properties: rows of every kind, goldens with rows, and no undeclared
gap."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import polars as pl
import pytest

import rheos as rh
from tests.equivalence.checks import each_program, golden
from tests.equivalence.compare import difference
from tests.equivalence.corpus import PROGRAMS
from tests.equivalence.corpus.inputs import SALES
from tests.equivalence.corpus.oracle import arrived, by_window, frame
from tests.equivalence.corpus.program import Given, Handing
from tests.equivalence.modes import GAPS, Mode, gap


def test_every_program_runs_in_every_mode_or_states_why_not() -> None:
    kinds = ("SIMULATED", "CONTINUOUS", "BATCH")
    run = {(param.values[0].name, param.values[1]) for param in each_program(*kinds)}
    for program in PROGRAMS:
        for mode in Mode:
            declared = gap(program, mode)
            assert ((program.name, mode) in run) == (declared is None or declared.raises is not None)
            assert declared is None or declared.reason
    names = [program.name for program in PROGRAMS]
    assert len(set(names)) == len(names)
    assert {name for name, _ in GAPS} <= set(names)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_programs_with_keyed_state_are_declared_stateful(tmp_path: Path) -> None:
    """The plan shows whether a program keeps state."""
    for program in PROGRAMS:
        env = rh.Environment(2)
        for name, stream in program.build(Given(env, Handing.FAST, tmp_path)).items():
            stream.collect(name)
        keyed = [one for one in env.plan().operators() if one.ports and one.ports[0].keys]
        assert bool(keyed) == program.stateful, program.name


def test_every_golden_has_rows() -> None:
    for program in PROGRAMS:
        rows = {
            sink: len(of if isinstance(of, pl.DataFrame) else list(of))
            for sink, of in golden(program).items()
        }
        assert {sink for sink, count in rows.items() if not count} == set(program.empty), program.name


def test_the_input_has_all_irregularities() -> None:
    sales = frame(SALES)
    rows = arrived(SALES)
    windows, late = by_window(rows, ["shop"], 10_000)
    # Out of order, tied, late, skewed, with nulls and empty strings; and rows that are late for some of
    # their windows only.
    assert not sales["at"].is_sorted()
    assert sales["at"].n_unique() < sales.height
    assert 5 < len(late) < 40
    assert max(map(len, windows.values())) > 5 * min(map(len, windows.values()))
    assert sales["user"].value_counts()["count"].max() > 20
    assert {"price", "quantity", "note"} == {c for c in sales.columns if sales[c].null_count()}
    assert "" in sales["shop"]
    assert "" in sales["note"]
    sliding, _ = by_window(rows, ["shop"], 15_000, 5_000)
    of = Counter(row["n"] for in_window in sliding.values() for row in in_window)
    assert set(of.values()) == {1, 2, 3}


def test_a_wrong_row_is_found() -> None:
    """The comparison distinguishes values, types, nulls, duplicates and missing rows."""
    right = pl.DataFrame({"a": [1, 1, 2], "b": [0.5, None, float("nan")]})
    assert difference(right.to_arrow(), right[::-1]) is None
    wrong = [
        right.with_columns(b=pl.col("b").fill_null(0.0)),
        right.with_columns(a=pl.col("a").cast(pl.Float64)),
        right.head(2),
        pl.concat([right, right.tail(1)]),
        right.rename({"b": "c"}),
        right.with_columns(b=-pl.col("b")),
    ]
    for rows in wrong:
        assert difference(rows.to_arrow(), right) is not None
