"""The model for many slots, and the comparison with Flink."""

from __future__ import annotations

import pytest

from benchmarks.peers.__main__ import CELLS, measurements
from benchmarks.slots import MEASURED, Model, element_rows, exchange_mib
from rheos.cli.benchmarks.programs import PROGRAMS
from rheos.core.task.config import TaskConfig

CONFIG = TaskConfig()


def test_the_model_recovers_the_costs_behind_measurements() -> None:
    made = Model(row_us=0.1, element_us=150.0, piece_us=2.0)
    measured = {slots: made.record_us(slots, CONFIG) for slots in MEASURED}
    fitted = Model.fitted(measured, CONFIG)
    for cost in ("row_us", "element_us", "piece_us"):
        assert getattr(fitted, cost) == pytest.approx(getattr(made, cost))


def test_no_cost_is_below_zero() -> None:
    # With more slots each record is cheaper, which no cost of an element explains.
    fitted = Model.fitted({slots: 0.1 - slots / 1000 for slots in MEASURED}, CONFIG)
    assert min(fitted.row_us, fitted.element_us, fitted.piece_us) >= 0


def test_elements_are_fragments_until_buffers_merge_them() -> None:
    assert element_rows(2, CONFIG) == CONFIG.batch_rows // 2
    assert element_rows(1000, CONFIG) > CONFIG.batch_rows // 1000


def test_the_exchange_of_a_slot_is_bounded() -> None:
    assert exchange_mib(1000, CONFIG) < 2 * exchange_mib(100, CONFIG)


def test_the_cells_compared_with_flink_are_benchmarks_of_rheos() -> None:
    assert {cell.split()[0] for cell in CELLS} <= PROGRAMS.keys()


def test_a_comparison_with_flink_has_median_minimum_and_maximum() -> None:
    run = {"records_per_s": 2e6, "cores": 1.0, "processor_us_per_record": 0.5}
    runs = [run | {"latency_ms": {"p50": ms, "p99": None}} for ms in (3.0, 1.0, 2.0, 2.5, 1.5)]
    assert measurements(runs)[3:] == ["2.00 (1.00 to 3.00)", "none"]
