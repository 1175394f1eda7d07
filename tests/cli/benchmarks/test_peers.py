"""Checks of the programs that are compared with Flink: both systems compute the same results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks.peers.__main__ import CELLS
from benchmarks.peers.check import COMPARED, Compared, Totals, by_flink, by_rheos, tables
from benchmarks.peers.flink import Flink

_WITHOUT_EVENT_TIME = {"grouping", "state-machine", "pattern"}


def test_all_compared_programs_with_event_time_are_checked() -> None:
    compared = {cell.split()[0] for cell in CELLS} - _WITHOUT_EVENT_TIME
    assert {one.name for one in COMPARED} == compared


def test_totals_agree_apart_from_rounding() -> None:
    totals = Totals(3, (1.5, 1e9))
    assert totals.agrees(replace(totals, sums=(1.5, 1e9 + 1)))
    assert not totals.agrees(replace(totals, sums=(1.5, 1e9 + 1_000)))
    assert not totals.agrees(replace(totals, results=4))
    assert not totals.agrees(replace(totals, sums=(1.5,)))


def test_the_checked_windows_contain_every_row() -> None:
    [tumbling] = [one for one in COMPARED if one.name == "tumbling"]
    given = tables(tumbling)
    totals = dict(zip(tumbling.columns, by_rheos(tumbling, given).sums, strict=True))
    assert totals["count"] == given["visits"].num_rows


@pytest.fixture(scope="module")
def flink() -> Iterator[Flink]:
    flink = Flink()
    yield flink
    flink.close()


@pytest.mark.slow
@pytest.mark.parametrize("compared", COMPARED, ids=lambda one: one.name)
def test_flink_computes_the_same_results(compared: Compared, flink: Flink) -> None:
    given = tables(compared)
    assert by_rheos(compared, given).agrees(by_flink(compared, given, flink))
