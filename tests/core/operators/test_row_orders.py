"""Orders of rows: the first rows after each change are those of sorting all rows."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from rheos.core.operators.changelog import row_orders
from rheos.core.operators.changelog.row_orders import RowOrders
from rheos.core.operators.row_order import row_order, value_order

COLUMNS = pa.schema([("id", pa.int64()), ("price", pa.float64()), ("name", pa.string())])
PRICES = [1.0, 2.0, 2.0, -0.0, 0.0, float("nan"), float("inf"), -3.5]


@pytest.mark.parametrize("smallest", [True, False])
@pytest.mark.parametrize("most_rows", [1 << 17, 20])
def test_the_first_rows_are_those_of_sorting(
    smallest: bool, most_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_orders, "MOST_ORDERED_ROWS", most_rows)
    order_of, tie = value_order(pa.float64()), row_order(COLUMNS)
    rng, n = Random(5), 3

    def place(row: Any) -> Any:
        return order_of(row[1])

    orders = RowOrders(place, tie, smallest=smallest)
    stored: dict[tuple[int], dict[str, Any]] = {(key,): {} for key in range(4)}
    for _ in range(1_500):
        key = (rng.choice([0, 0, 0, 1, 2, 3]),)
        rows = stored[key]
        item = str(rng.randrange(30))
        orders.first(n, key, rows)
        before = rows.get(item)
        after = None if rng.random() < 0.3 else (int(item), rng.choice(PRICES), rng.choice("ab"))
        if after is not None:
            rows[item] = after
        else:
            rows.pop(item, None)
        orders.change(key, item, before, after)
        expected = sorted(rows.values(), key=tie)
        expected.sort(key=place, reverse=not smallest)
        assert repr(orders.first(n, key, rows)) == repr(expected[:n])
        sizes = [len(entries) for entries in orders._orders.values()]
        assert orders._size == sum(sizes)
        assert orders._size <= max(most_rows, sizes[-1])
