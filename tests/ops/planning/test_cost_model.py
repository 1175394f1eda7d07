"""The fitted costs are those that the sample was made from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.ops.planning.cost_model import channel_rows, group_share
from rheos.ops.planning.fitting import fit
from tests.ops.planning.samples import (
    BATCH_US,
    KEYED_US,
    REMOTE_US,
    ROW_BYTES,
    SEND_US,
    SOURCE_US,
    grouping,
    phase,
)


def test_costs_of_rows_exchange_and_batches_are_told_apart() -> None:
    source, keyed = fit(grouping()).chains
    assert source.row_us == pytest.approx(SOURCE_US, rel=1e-3)
    assert keyed.row_us == pytest.approx(KEYED_US, rel=1e-3)
    assert keyed.remote_us == pytest.approx(REMOTE_US, rel=1e-2)
    assert source.batch_us == pytest.approx(BATCH_US, rel=1e-3)
    assert source.send_us == pytest.approx(SEND_US, rel=1e-2)
    assert fit(grouping()).error < 1e-6


def test_an_edge_has_the_size_of_its_rows() -> None:
    (edge,) = fit(grouping()).edges
    assert edge.bytes_per_row == pytest.approx(ROW_BYTES)
    assert edge.rows_per_source_row == pytest.approx(1.0)
    assert edge.fill == pytest.approx(1.0)


def test_one_phase_yields_a_cost_per_row_only() -> None:
    source, keyed = fit(grouping([phase(1, 16_384)])).chains
    assert (keyed.remote_us, keyed.batch_us) == (0.0, 0.0)
    assert keyed.row_us > KEYED_US
    assert source.row_us > SOURCE_US


@given(
    st.integers(1, 200), st.integers(2, 32_768), st.floats(0, 1e9), st.none() | st.integers(0, 10**7)
)
def test_an_element_has_at_least_one_row_and_at_most_a_batch(
    receivers: int, batch_rows: int, rows_per_s: float, timeout_us: int | None
) -> None:
    assert 1 <= channel_rows(receivers, batch_rows, rows_per_s, timeout_us) <= batch_rows


def test_a_slow_channel_sends_what_arrives_within_the_buffer_timeout() -> None:
    assert channel_rows(4, 16_384, 40_000, 10_000) == 100
    assert channel_rows(4, 16_384, 40_000, 0) == 1
    assert channel_rows(4, 16_384, 40_000, None) == 4096


def test_key_groups_that_do_not_divide_evenly_load_one_slot_more() -> None:
    assert group_share(8, 128) == 1 / 8
    assert group_share(100, 128) == 2 / 128
