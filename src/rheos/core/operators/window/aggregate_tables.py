"""The tables with the state of a window operator's aggregates.

Each aggregate declares the parts of its state (`aggregates/contract.py`). A *table* holds the state of
some aggregates by key and pane. `TotalsTable` has one row per key and pane, with the state of all
reduced aggregates. A `GatheredTable` has the values gathered for one state, a `CountedTable` the
counted values, and `KeptTable` whole rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import pyarrow as pa

from rheos.core.aggregates.contract import (
    Agg,
    CountedValues,
    ManyRowsState,
    OneRowState,
    RowsState,
    input_name,
)
from rheos.core.graph.reducing import with_exact_decimals
from rheos.core.operators.window.row_tables import CountedTable, GatheredTable, KeptTable, kept_name
from rheos.core.operators.window.table_contract import AggregateTable, Grouping
from rheos.core.operators.window.totals_table import TotalsTable


class Tables:
    """The tables that a set of aggregates over rows of `schema` needs."""

    def __init__(
        self, keys: Sequence[str], aggregates: Mapping[str, Agg], schema: pa.Schema, windows: Grouping
    ) -> None:
        reduced: dict[str, OneRowState] = {}
        gathered: dict[str, dict[str, ManyRowsState]] = {}
        counted: dict[str, dict[str, CountedValues]] = {}
        kept: dict[str, dict[str, RowsState]] = {}
        for name, agg in aggregates.items():
            match with_exact_decimals(agg, schema).windowed(schema):
                case OneRowState() as state:
                    reduced[name] = state
                case ManyRowsState() as state:
                    gathered.setdefault(state.state, {})[name] = state
                case CountedValues() as state:
                    counted.setdefault(state.state, {})[name] = state
                case RowsState() as state:
                    kept.setdefault(kept_name(state.most), {})[name] = state
                case never:
                    assert_never(never)
        self.totals = TotalsTable(keys, reduced, windows)
        self.others: list[AggregateTable] = [
            GatheredTable(keys, states, windows) for states in gathered.values()
        ]
        self.others += [CountedTable(keys, states, windows) for states in counted.values()]
        self.others += [KeptTable(keys, states, windows) for states in kept.values()]
        self.of_nothing: dict[str, Any] = {
            name: state.of_nothing for states in gathered.values() for name, state in states.items()
        }
        """Results of aggregates in windows without a row in their table."""
        self.needs = {
            name: needs
            for table in (self.totals, *self.others)
            for name, needs in table.needs().items()
        }
        """By aggregate, the names of the stored parts that its result requires."""
        used = dict.fromkeys(column for agg in aggregates.values() for column in agg.columns)
        self.inputs = {input_name(column): column for column in used}
        """Input columns from which state is computed, by their names in frames."""
