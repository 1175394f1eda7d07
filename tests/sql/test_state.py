"""State of a query is restored after changes in other parts of the query."""

from __future__ import annotations

import re
from typing import Any

import rheos as rh
from rheos.core.checkpoint.compatibility import compare, refusals
from rheos.core.operators.shapes import state_shapes
from tests.sql.data import registered

WINDOWS = "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' MINUTES))"
BEFORE = (
    f"SELECT auction, window_end, COUNT(*) AS n FROM {WINDOWS} GROUP BY auction, window_start, "
    "window_end"
)


def ids(*queries: str) -> list[str]:
    """Return the ids of the operators that keep state."""
    env = rh.Environment()
    registered(env)
    for place, query in enumerate(queries):
        env.sql(query, state_ttl="1d").collect(str(place))
    return re.findall(r"\[(sql [^\]]+)\]", env.explain("plan"))


def test_a_new_aggregate_or_filter_changes_no_id() -> None:
    after = BEFORE.replace("COUNT(*) AS n", "MAX(price) AS most, COUNT(*) AS n")
    after = after.replace(WINDOWS, f"{WINDOWS} WHERE price > 10")
    assert ids(BEFORE) == ids(after)
    assert len(ids(BEFORE)) == 1


def kept(query: str) -> Any:
    """Return what is stored."""
    env = rh.Environment()
    registered(env)
    env.sql(query).collect("found")
    return state_shapes(env.plan().operators())


def refused(before: str, after: str) -> bool:
    """Return whether a job refuses to continue with the state of another query."""
    found = compare(kept(before), kept(after), {})
    assert any("sql" in each.operator for each in found)
    return refusals(found, allow_dropped=False) is not None


def test_state_is_restored_after_other_filters_and_columns() -> None:
    after = BEFORE.replace(WINDOWS, f"{WINDOWS} WHERE price > 10")
    assert not refused(BEFORE, after.replace("COUNT(*) AS n", "COUNT(*) * 2 AS twice"))


def test_state_without_a_new_aggregate_is_refused() -> None:
    assert refused(BEFORE, BEFORE.replace("COUNT(*) AS n", "COUNT(*) AS n, COUNT(bidder) AS known"))


def test_other_keys_or_windows_have_other_state() -> None:
    keys = BEFORE.replace("auction", "bidder")
    windows = BEFORE.replace("'5'", "'10'")
    found = {*ids(BEFORE), *ids(keys), *ids(windows)}
    assert len(found) == 3


def test_neighbouring_queries_change_no_id() -> None:
    other = "SELECT bidder, COUNT(*) AS n FROM bids GROUP BY bidder"
    assert {*ids(BEFORE, other)} == {*ids(other, BEFORE)} == {*ids(BEFORE), *ids(other)}


def test_a_repeated_query_has_one_state() -> None:
    assert {*ids(BEFORE, BEFORE)} == {*ids(BEFORE)}


def test_queries_over_other_rows_have_different_ids() -> None:
    other = BEFORE.replace("TABLE bids", "TABLE some")
    found = ids(BEFORE, f"WITH some AS (SELECT * FROM bids WHERE bidder > 1) {other}")
    assert len({*found}) == 2
    assert found[0] == ids(BEFORE)[0]
