"""`top_n` of append-only rows: a batch has the effect of its rows one after the other."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from itertools import zip_longest
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.operators.changelog.top_n import TopNSpec
from tests.core.operators.contexts import context

BIDS = pa.schema([("item", pa.string()), ("price", pa.float64()), ("user", pa.int64())])
RANKS = pa.schema([*BIDS, ("rank", pa.int64()), ("op", pa.string())])

Bid = tuple[str, float | None, int | None]

PRICES = st.none() | st.just(float("nan")) | st.sampled_from([-1.0, -0.0, 0.0, 2.5, float("inf")])
DRAWN = st.lists(
    st.lists(st.tuples(st.sampled_from("ab"), PRICES, st.none() | st.integers(1, 3)), max_size=8),
    max_size=5,
)


def expected(bids: list[Bid], n: int, *, smallest: bool, with_ties: bool) -> list[tuple[Any, ...]]:
    """Compute by a loop the effect of each row on every rank of its key."""

    def by_user(bid: Bid) -> tuple[bool, int]:
        return bid[2] is None, bid[2] or 0

    tops: dict[str, list[Bid]] = {}
    found: list[tuple[Any, ...]] = []
    for bid in bids:
        before = tops.setdefault(bid[0], [])
        if bid[1] is None:
            continue

        def price(each: Bid) -> tuple[bool, float]:
            # -0.0 and 0.0 are one price, and so are rows that differ in nothing else.
            return (True, 0.0) if each[1] != each[1] else (False, each[1] or 0.0)

        after = sorted([*before, bid], key=by_user)
        after.sort(key=price, reverse=not smallest)
        ties = [each for each in after[n:] if with_ties and price(each) == price(after[n - 1])]
        tops[bid[0]] = after = [*after[:n], *ties]
        for rank, (was, now) in enumerate(zip_longest(before, after), 1):
            if was is None:
                found.append((*now, rank, "insert"))
            elif now is None:
                found.append((*was, rank, "delete"))
            elif was != now:
                found += [(*was, rank, "update_before"), (*now, rank, "update_after")]
    return found


@given(DRAWN, st.integers(1, 4), st.booleans(), st.booleans())
def test_a_batch_has_the_effect_of_its_rows_one_by_one(
    batches: list[list[Bid]], n: int, smallest: bool, with_ties: bool
) -> None:
    ctx = context(BIDS, RANKS, keys=("item",), batch_rows=5)
    operator = TopNSpec(n, "price", smallest, None, with_ties=with_ties).operator(ctx)
    operator.open({})
    found: list[tuple[Any, ...]] = []
    for bids in batches:
        rows = [dict(zip(BIDS.names, bid, strict=True)) for bid in bids]
        for out in operator.on_batch(0, pa.RecordBatch.from_pylist(rows, BIDS)):
            assert 0 < out.batch.num_rows <= 5
            found += [tuple(row.values()) for row in out.batch.to_pylist()]
    every = [bid for bids in batches for bid in bids]
    wanted = expected(every, n, smallest=smallest, with_ties=with_ties)
    assert list(map(repr, found)) == list(map(repr, wanted))  # NaN is not equal to itself.


@pytest.mark.parametrize(
    ("kind", "ascending"),
    [
        (pa.float16(), [np.float16(0.5), np.float16(2), np.float16("nan")]),
        (pa.dictionary(pa.int32(), pa.string()), ["a", "ab", "b"]),
        (pa.decimal128(4, 1), [Decimal("-1.5"), Decimal("0.2"), Decimal("9.0")]),
        (pa.bool_(), [False, True]),
        (pa.duration("ms"), [timedelta(0), timedelta(1)]),
    ],
    ids=str,
)
@pytest.mark.parametrize("smallest", [True, False])
def test_values_of_any_type_are_ranked(kind: pa.DataType, ascending: list[Any], smallest: bool) -> None:
    bids = pa.schema([("item", pa.string()), ("price", kind), ("user", pa.int64())])
    operator = TopNSpec(1, "price", smallest, None).operator(
        context(bids, pa.schema([*bids, ("rank", pa.int64()), ("op", pa.string())]), keys=("item",))
    )
    operator.open({})
    best_last = ascending[::-1] if smallest else ascending
    found = []
    for values in ([None, *best_last], best_last):
        items, users = pa.array(["a"] * len(values)), pa.array(range(len(values)))
        batch = pa.RecordBatch.from_arrays([items, pa.array(values, kind), users], schema=bids)
        for out in operator.on_batch(0, batch):
            found += [row["user"] for row in out.batch.to_pylist() if row["op"] != "update_before"]
    n = len(ascending)
    # The row that replaced the first batch's best one has the same value and a smaller number.
    assert found == [*range(1, n + 1), n - 1]
