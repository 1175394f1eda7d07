"""The comparison of Nexmark with Flink's SQL: the statements, the totals of results, and the table."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from benchmarks.nexmark.queries import QUERIES
from benchmarks.nexmark.statements import STATEMENTS
from benchmarks.peers.nexmark import HEADER, Comparison, calibrate, events_of, line
from benchmarks.peers.nexmark_check import by_rheos, write_folder

EVENTS = 500


def test_all_queries_but_the_one_that_flink_cannot_express_are_compared() -> None:
    assert {*QUERIES} - {*STATEMENTS} == {"q6"}


def test_totals_are_those_of_the_final_table_in_the_order_of_its_columns() -> None:
    totals = by_rheos(["q2", "q15"], EVENTS)
    bids = EVENTS * 46 // 50
    day = zlib.crc32(b"2026-01-01")
    assert totals["q15"].results == 1
    assert totals["q15"].sums[:2] == (day, bids)
    assert len(totals["q2"].sums) == 3


def test_the_java_program_reads_each_statement_and_pool(tmp_path: Path) -> None:
    write_folder(tmp_path)
    written = {path.name for path in tmp_path.iterdir()}
    assert {f"{name}.sql" for name in STATEMENTS} < written
    assert {"tables.sql", "url.txt", "credit card.txt"} < written
    assert "$" in (tmp_path / "tables.sql").read_text()


def test_the_slower_system_limits_the_number_of_events() -> None:
    assert events_of(1.0, [1_000_000, 800_000]) == 2_000_000
    assert events_of(1.0, [1_000_000, 100_000]) == 600_000
    assert events_of(1.0, [100, 1_000]) == 20_000
    assert isinstance(events_of(0.3, [1_234_567.0, 765_432.1]), int)


def test_a_run_in_advance_is_repeated_if_it_was_short() -> None:
    tried: list[int] = []

    def rates_of(events: int) -> list[float]:
        tried.append(events)
        return [100_000.0, 100_000.0] if events < 100_000 else [1_000_000.0, 900_000.0]

    assert calibrate(1.0, 50_000, rates_of) == 2_000_000
    assert tried == [50_000, 200_000, 2_000_000]
    assert calibrate(1.0, 1_500_000, rates_of) == 2_000_000
    assert tried[3:] == [1_500_000]


def test_a_line_compares_pairs_of_the_same_round() -> None:
    ours = [{"records_per_s": 2e6, "processor_us_per_record": 1.0} for _ in range(5)]
    theirs = [{"records_per_s": 1e6, "processor_us_per_record": 4.0} for _ in range(5)]
    columns = line("q0", 1_000_000, ours, theirs).strip("| ").split(" | ")
    assert len(columns) == HEADER[0].count(" | ") + 1
    assert columns[:2] == ["q0, pass through", "1.00"]
    assert [column.split()[0] for column in columns[2:]] == [
        "2.000",
        "1.00",
        "1.000",
        "4.00",
        "2.00",
        "0.25",
    ]


@pytest.mark.slow
def test_flink_finds_the_same() -> None:
    comparison = Comparison(rounds=0, seconds=1.0)
    try:
        assert comparison.differences(list(STATEMENTS)) == []
    finally:
        comparison.close()
