"""The state of a query finds itself again where the query has changed in other parts."""

from __future__ import annotations

import re

import rheos as rh
from tests.sql.data import registered

WINDOWS = "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' MINUTES))"
BEFORE = (
    f"SELECT auction, window_end, COUNT(*) AS n FROM {WINDOWS} GROUP BY auction, window_start, "
    "window_end"
)


def ids(*queries: str) -> list[str]:
    """Of the operators that keep state."""
    env = rh.Environment()
    registered(env)
    for place, query in enumerate(queries):
        env.sql(query, state_ttl="1d").collect(str(place))
    return re.findall(r"\[(sql [^\]]+)\]", env.explain("plan"))


def test_an_aggregate_and_a_filter_more_change_no_id() -> None:
    after = BEFORE.replace("COUNT(*) AS n", "MAX(price) AS most, COUNT(*) AS n")
    after = after.replace(WINDOWS, f"{WINDOWS} WHERE price > 10")
    assert ids(BEFORE) == ids(after)
    assert len(ids(BEFORE)) == 1


def test_other_keys_windows_and_tables_are_other_state() -> None:
    keys = BEFORE.replace("auction", "bidder")
    windows = BEFORE.replace("'5'", "'10'")
    found = {*ids(BEFORE), *ids(keys), *ids(windows)}
    assert len(found) == 3


def test_queries_before_and_behind_change_no_id() -> None:
    other = "SELECT bidder, COUNT(*) AS n FROM bids GROUP BY bidder"
    assert {*ids(BEFORE, other)} == {*ids(other, BEFORE)} == {*ids(BEFORE), *ids(other)}


def test_a_query_that_is_there_twice_has_two_ids() -> None:
    found = ids(BEFORE, BEFORE)
    assert len({*found}) == 2
    assert found[0] == ids(BEFORE)[0]
